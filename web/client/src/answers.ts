/** The one rule that turns a raw value into an answer, the same on every device.
 *
 *     tidy      Unicode NFC, then the outer blanks off
 *     number    ASCII digits, a point, an exponent; its value is the nearest double
 *     label     the text as it is; else tidied; else, if it is a number, by its value
 *     nothing   null, nan, a text that is empty when tidied, and the campaign's markers
 */

import { MurmurationError } from "./errors.js";
import { float } from "./form.js";
import {
  type Answer,
  type Campaign,
  type Misfit,
  type Question,
  type Raw,
  type RawAnswers,
  SPREAD,
} from "./types.js";
import { derived, tabled } from "./table.js";

const NUMBER = /^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?$/i;
/** How a label begins that is a code, as 01: with one of these no label matches by value. */
const CODE = /^[+-]?0[0-9]/;
/** From here on, doubles do not tell whole numbers apart: labels match as texts only. */
const MOST = 2 ** 53;
/** The capital letters that are folded, and small ones between them; the list is the rule's own, as
 * tables of Unicode differ from version to version. These small letters have never changed. */
const CAPITALS = new RegExp(
  "[A-Z\\u00c0-\\u00d6\\u00d8-\\u00de\\u0100-\\u012e\\u0132-\\u0136\\u0139-\\u0147" +
    "\\u014a-\\u0176\\u0178-\\u017d\\u0386\\u0388-\\u038a\\u038c\\u038e\\u038f\\u0391" +
    "-\\u03a1\\u03a3-\\u03ab\\u0400-\\u042f]",
  "g",
);

const NOTHING = -1;
const UNKNOWN = -2;

/** Return a text in small letters; the sigma at the end of a word is a sigma. */
export function folded(text: string): string {
  return text.replace(CAPITALS, (letter) => letter.toLowerCase()).replace(/\u03c2/g, "\u03c3");
}

/** Return the form in which texts are compared. */
export function keyOf(text: string, question: Question): string {
  const tidy = text.normalize("NFC").trim(); // JavaScript's blanks are the rule's
  return question.case === "ignore" ? folded(tidy) : tidy;
}

function numberOf(key: string): number {
  return NUMBER.test(key) ? Number(key) : NaN;
}

/** How the texts of one question are found. */
interface Index {
  readonly plain: ReadonlyMap<string, number>;
  readonly tidied: ReadonlyMap<string, number>;
  readonly byValue: ReadonlyMap<number, number>;
}

const known = new WeakMap<Question, Index>();

function indexOf(question: Question): Index {
  const before = known.get(question);
  if (before) return before;
  const keys = question.labels.map((label) => keyOf(label, question));
  const marks = question.markers.map((marker) => keyOf(marker, question));
  const codes = keys.some((key) => CODE.test(key));
  const found = {
    plain: new Map(question.labels.map((label, place) => [label, place])),
    tidied: places(keys, marks),
    byValue: codes ? new Map<number, number>() : places(keys.map(numberOf), marks.map(numberOf)),
  };
  known.set(question, found);
  return found;
}

/** Return the place of each label by its key; of two labels with the same key neither is found. */
function places<T>(labels: readonly T[], markers: readonly T[]): Map<T, number> {
  const found = new Map(markers.map((key) => [key, NOTHING]));
  labels.forEach((key, place) => found.set(key, found.has(key) ? UNKNOWN : place));
  return found;
}

/** Return the place of a text's label; NOTHING if it is no answer, or UNKNOWN. */
function placeOf(question: Question, text: string): number {
  const { plain, tidied, byValue } = indexOf(question);
  const exact = plain.get(text);
  if (exact !== undefined) return exact;
  const key = keyOf(text, question);
  if (!key) return NOTHING;
  const found = tidied.get(key) ?? UNKNOWN;
  if (found !== UNKNOWN) return found;
  const value = numberOf(key);
  return Math.abs(value) < MOST ? (byValue.get(value) ?? UNKNOWN) : UNKNOWN;
}

/** Write what is no text as one: 1 and 1.0 as 1, true as True. Undefined if it is nothing. */
function textOf(raw: Raw): string | undefined {
  if (raw === null || raw === undefined || Number.isNaN(raw)) return undefined;
  if (typeof raw === "boolean") return raw ? "True" : "False";
  if (typeof raw === "string") return raw;
  if (!Number.isFinite(raw)) return raw < 0 ? "-inf" : "inf";
  return Number.isSafeInteger(raw) ? String(raw) : float(raw);
}

type Read = number | "no answer" | "no label" | "no number";

/** What a raw value is: the place of a label, a number, or why it is none. */
export function read(question: Question, raw: Raw): Read {
  const text = textOf(raw);
  const place = text === undefined ? NOTHING : placeOf(question, text);
  if (question.kind === "category") {
    return place === NOTHING ? "no answer" : place === UNKNOWN ? "no label" : place;
  }
  const value = typeof raw === "string" ? numberOf(keyOf(raw, question)) : Number(raw ?? NaN);
  if (Number.isNaN(value)) return place === NOTHING ? "no answer" : "no number";
  const marked = question.markers.some((marker) => numberOf(keyOf(marker, question)) === value);
  return marked ? "no answer" : value;
}

/** Turn raw values by name into answers, one for each question; refuse what is missing.
 *
 * Where the campaign says that answers outside a range or a list are refused, they count as the
 * nearer end, or as a label by chance, all the same, as silence would tell that the answer is
 * outside; unless the person agrees to be silent.
 */
export function encode(campaign: Campaign, raw: RawAnswers, mayBeSilent = false): Answer[] {
  const names = given(campaign).map((question) => question.name);
  const unknown = Object.keys(raw).filter((name) => !names.includes(name));
  if (unknown.length) throw refused(`the campaign has no attribute ${unknown.join(", ")}`);
  const answers = campaign.questions.map((question, place) => {
    if (question.of.length) return SPREAD; // it is made of others
    const checked = campaign.questions.find(({ name }) => name === question.checks);
    if (checked) return fitted(checked, rawOf(raw, checked));
    const given = read(question, rawOf(raw, question));
    const silent = mayBeSilent && question.outside === "refuse";
    const asked = { ...question, name: `question ${place + 1}` }; // errors have no collector's words
    return question.kind === "category" ? item(asked, given, silent) : number(asked, given, silent);
  });
  return tabled(campaign.questions, answers);
}

/** Return the answers that do not fit, for the app: an unknown label, an invalid number or
 * out of range. What becomes of them is the campaign's rule; nothing of this is sent. */
export function misfitsOf(campaign: Pick<Campaign, "questions">, raw: RawAnswers): Misfit[] {
  return given(campaign).flatMap((question): Misfit[] => {
    const why = misfit(question, rawOf(raw, question));
    if (!why) return [];
    const problem = `the answer is ${PROBLEMS[why]}`;
    const outside = why === "out of range";
    const range = outside ? ` ${question.low} to ${question.high}` : "";
    const reason = outside ? "outside" : "unknown";
    return [{ attribute: question.name, reason, problem: problem + range }];
  });
}

const PROBLEMS = {
  "out of range": "outside the range",
  "no label": "not one of the labels",
  "no number": "not a number",
} as const;

/** The questions that people answer; the others the device answers by itself. */
export function given({ questions }: Pick<Campaign, "questions">): Question[] {
  return questions.filter((question) => !derived(question));
}

function rawOf(raw: RawAnswers, { name }: Question): Raw {
  return Object.hasOwn(raw, name) ? raw[name] : undefined;
}

/** Why an answer does not fit; undefined if it does, or is none. */
function misfit(question: Question, raw: Raw): keyof typeof PROBLEMS | undefined {
  const { kind, low, high, labels, outside } = question;
  const found = read(question, raw);
  if (found === "no answer") return undefined;
  const rest = labels.includes(outside) && outside !== "spread" && outside !== "refuse";
  if (typeof found === "string") return found === "no label" && rest ? undefined : found;
  return kind !== "category" && (found < low || found > high) ? "out of range" : undefined;
}

/** Whether an answer fitted, as an answer: the place of "fitted", "did not fit", or of none. */
function fitted(question: Question, raw: Raw): Answer {
  if (read(question, raw) === "no answer") return 2;
  return misfit(question, raw) ? 1 : 0;
}

function number(
  { name, low, high, missing, outside }: Question,
  value: Read,
  silent: boolean,
): Answer {
  if (typeof value === "string") {
    if (missing) return NaN;
    throw noAnswer(name);
  }
  const inside = Math.min(Math.max(value, low), high);
  if (inside !== value && outside === "no answer") return NaN;
  if (inside !== value && silent) throw unfit(name);
  return Math.min(Math.max(2 * ((inside - low) / (high - low)) - 1, -1), 1);
}

function item({ name, labels, missing, outside }: Question, place: Read, silent: boolean): Answer {
  if (typeof place === "number") return place;
  if (place === "no answer") {
    if (missing) return labels.length;
    throw noAnswer(name);
  }
  if (silent) throw unfit(name);
  if (outside === "spread" || outside === "refuse") return SPREAD;
  return labels.includes(outside) ? labels.indexOf(outside) : labels.length;
}

function noAnswer(name: string): MurmurationError {
  return refused(`${name} has no answer that counts, and silence can be seen`);
}

function unfit(name: string): MurmurationError {
  return refused(`${name} has an answer that does not fit`);
}

function refused(message: string): MurmurationError {
  return new MurmurationError("input", `${message}. Nothing was sent.`);
}
