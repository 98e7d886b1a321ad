/** What people are told about cost, bounds, plans and intervals: facts in, one sentence out.
 *
 * Every page and the element say these sentences, and no others of their kind. The same functions
 * are in Python (`src/murmuration/sentences.py`), and `docs/vectors/sentences.json` holds both to the
 * same words. A bound is rounded up: no sentence promises more than is kept.
 */

import type { Voice } from "./voice.js";

/** In English; `{name}` is filled in. */
export const SENTENCES = {
  odds: "Whatever somebody thought before, a report changes the odds by at most a factor of {times}.",
  oddsEndless: "Some report is possible for one answer only: whoever sees it can be certain.",
  sure:
    "Somebody who thought two answers equally likely can then be at most {sure} sure of one of them, whatever else they know.",
  sureEndless:
    "Somebody who thought two answers equally likely can then be as good as certain of one of them.",
  reveals: "{loss} of a promised {epsilon} (epsilon)",
  revealsMore:
    "{loss}, more than the promised {epsilon} (epsilon), as the campaign says: {words}",
  promise:
    "Your report is at most {times} times as likely as with any other answers: whoever sees it cannot be sure.",
  levelOffer: "{name}: a report at most {times} times as likely as with any other answers",
  allReports:
    "This campaign asks again: all your reports together change the odds by at most a factor of {times}, whatever your answers do, and when.",
  allStay:
    "This campaign asks again: all your reports together change the odds by at most a factor of {times}, as long as an answer stays as it is. When it changes is not hidden.",
  cost: "A report costs at most {cost} of your privacy budget (epsilon).",
  costEndless: "A report costs more than any privacy budget (epsilon).",
  costFirst: "The first report costs {reserved} more, for “no answer” later on.",
  limits: "Limits here: {report} for one report, {collector} for one collector, {lifetime} in all.",
  noLimit: "no limit",
} as const;

/** What an operator is told about figures, on the dashboard. */
export const FIGURES = {
  interval: "{level} interval, one look: {low} to {high}",
  intervalAlways: "at all looks: {low} to {high}",
  intervalsOnce: "Thin line with ends: the {level} interval for one look.",
  intervalsAlways:
    "Shaded band: the {level} confidence sequence. It is right at all looks together, so that watching it and stopping when one likes is allowed.",
  half: "±{half}",
  halfHint:
    "half of the {level} interval, if the rest answers like those so far; planned for at most ±{planned}",
  planned: "planned for at most ±{planned}",
  liars: "up to {shift}",
  liarsHint: "could move it so far, all lying one way",
  liarsNone: "no bound",
} as const;

/** What says them: the element in its language, or a page. */
type Teller = Voice<Readonly<Record<keyof typeof SENTENCES, string>>>;

/** Beyond this anybody is as good as certain. */
const MOST_SAID = 20;

export function odds(teller: Teller, loss: number): string {
  if (loss === Infinity) return teller.say("oddsEndless");
  return teller.say("odds", { times: teller.times(loss) });
}

export function sure(teller: Teller, loss: number): string {
  if (loss > MOST_SAID) return teller.say("sureEndless");
  return teller.say("sure", { sure: teller.certainty(loss) });
}

/** The loss of one report beside what is promised; `accepted` is what the campaign says of more. */
export function reveals(
  teller: Teller,
  loss: number,
  promised: number,
  accepted: string | null = null,
): string {
  const values = { loss: teller.above(loss, 7), epsilon: teller.rough(promised, 7) };
  if (accepted === null) return teller.say("reveals", values);
  return teller.say("revealsMore", { ...values, words: accepted });
}

export function promise(teller: Teller, loss: number): string {
  return teller.say("promise", { times: teller.times(loss) });
}

export function levelOffer(teller: Teller, name: string, loss: number): string {
  return teller.say("levelOffer", { name, times: teller.times(loss) });
}

/** `hidden`: the bound holds whatever the answers do; else as long as each stays as it is. */
export function allReports(teller: Teller, bound: number, hidden: boolean): string {
  return teller.say(hidden ? "allReports" : "allStay", { times: teller.times(bound) });
}

export function cost(teller: Teller, most: number): string {
  if (most === Infinity) return teller.say("costEndless");
  return teller.say("cost", { cost: teller.above(most) });
}

/** What the first report costs more, so that "no answer" can be said later. */
export function reserve(teller: Teller, amount: number): string {
  return teller.say("costFirst", { reserved: teller.above(amount) });
}

/** What a person allows: on one report, on one collector, and on everything. */
export function limits(
  teller: Teller,
  { report, collector, lifetime }: Readonly<Record<"report" | "collector" | "lifetime", number>>,
): string {
  const [one, host, all] = [report, collector, lifetime].map((most) => teller.rough(most));
  return teller.say("limits", { report: one!, collector: host!, lifetime: all! });
}

// --- figures -----------------------------------------------------------------------------------

type Reader = Voice<typeof FIGURES>;

/** An interval for one look; its ends are written as the figure is. */
export function interval(reader: Reader, confidence: number, low: string, high: string): string {
  return reader.say("interval", { level: reader.percent(confidence, 4), low, high });
}

/** An interval that is right at all looks. */
export function intervalAlways(reader: Reader, low: string, high: string): string {
  return reader.say("intervalAlways", { low, high });
}

/** What the two kinds of intervals look like. */
export function intervals(reader: Reader, confidence: number): string[] {
  const level = reader.percent(confidence, 4);
  return [reader.say("intervalsOnce", { level }), reader.say("intervalsAlways", { level })];
}

/** How wide the interval will be, if that is known, and what it was planned to be at most. */
export function forecast(
  reader: Reader,
  confidence: number,
  half: string | null,
  planned: string,
): [half: string, hint: string] {
  if (half === null) return ["", reader.say("planned", { planned })];
  const level = reader.percent(confidence, 4);
  return [reader.say("half", { half }), reader.say("halfHint", { level, planned })];
}

/** How far liars could move a figure, if anything bounds it. */
export function liars(reader: Reader, shift: string | null): [most: string, hint: string] {
  if (shift === null) return [reader.say("liarsNone"), ""];
  return [reader.say("liars", { shift }), reader.say("liarsHint")];
}
