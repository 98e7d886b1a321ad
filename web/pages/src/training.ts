/** A training on the dashboard: the open round, the learning curve, the private score, what was learnt. */

import { FIGURES } from "../../client/src/sentences.js";
import { onScale, sequence } from "./chart.js";
import type { Live, RoundState, TrainingState } from "./live.js";
import { type Content, folded, make } from "./page.js";
import { percent, rough, saying, whole } from "./say.js";
import { DASHBOARD } from "./texts.js";

const say = saying(DASHBOARD);
const WIDE = 1.96;
const STATES = { open: "stateOpen", closed: "stateClosed", aside: "stateAside" } as const;

/** The skeleton is made once; each state fills it anew, so that what a person has opened stays open. */
export class TrainingCards {
  readonly #now = make("div");
  readonly #curve = make("div");
  readonly #score = make("div");
  readonly #weights = make("div", { class: "wide" });
  readonly #rounds = make("div", { class: "wide" });
  readonly root: readonly HTMLElement[];

  constructor() {
    const card = (title: string, ...parts: HTMLElement[]) =>
      make("article", { class: "card" }, make("header", {}, make("h2", {}, title)), ...parts);
    this.root = [
      make("article", { class: "card" }, this.#now, folded(say("rounds"), this.#rounds)),
      card(say("curve"), this.#curve),
      card(say("score"), this.#score),
      card(say("coefficients"), this.#weights),
    ];
  }

  show(training: TrainingState, live: Live): void {
    this.#now.replaceChildren(...now(training, live));
    this.#curve.replaceChildren(...curve(training));
    this.#score.replaceChildren(...scored(training));
    this.#weights.replaceChildren(weights(training));
    this.#rounds.replaceChildren(table(training.rounds));
  }
}

function hint(text: string): HTMLElement {
  return make("p", { class: "hint" }, text);
}

// --- the open round ------------------------------------------------------------------------------

function now({ model, target, rounds, ended, notes }: TrainingState, live: Live): Content[] {
  const last = rounds.at(-1);
  const title = make("h2", { dir: "auto" }, say("training", { model, target }));
  const round = last?.number ?? 0;
  const stage = make(
    "p",
    { class: "kind" },
    say(ended ? "trainingEnded" : "trainingRound", { round }),
  );
  const said = notes.map((note) => make("p", { class: "strong" }, note));
  const open = last && !ended ? progress(last, live.cohort) : [];
  return [make("header", {}, title), stage, ...open, ...said];
}

function progress(round: RoundState, cohort: number): Content[] {
  const { people, size, deadline } = round;
  const bar = make("progress", {
    max: String(size),
    value: String(Math.min(people, size)),
    "aria-hidden": "true",
  });
  const until = deadline === null ? say("roundNoDeadline") : say("roundDeadline", { time: at(deadline) });
  return [
    make("p", { class: "figure" }, say("roundPeople", { people, size })),
    bar,
    hint(until),
    hint(say("roundFew", { cohort })),
  ];
}

function at(seconds: number): string {
  const time = { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" } as const;
  return new Date(seconds * 1000).toLocaleString([], time);
}

// --- how far it has come -------------------------------------------------------------------------

function curve({ curve }: TrainingState): Content[] {
  const looks = curve.map(({ asked, gained, doubt }) => ({
    n: asked,
    value: gained,
    low: gained - WIDE * doubt,
    high: gained + WIDE * doubt,
  }));
  const last = looks.at(-1);
  if (!last) return [hint(say("curveNone"))];
  const values = {
    value: percent(last.value, 0),
    low: percent(last.low, 0),
    high: percent(last.high, 0),
    count: last.n,
  };
  const drawn = sequence({
    label: say("chartCurve", values),
    looks,
    within: [-0.5, 1.5],
    truth: null,
    unit: (value) => percent(value, 0),
    axis: say("curveAxis"),
    zero: true,
  });
  return [drawn, hint(say("curveHint"))];
}

function scored({ score, liars }: TrainingState): Content[] {
  if (!score) return [hint(say("scoreNone"))];
  const share = score.unit === "share";
  const write = (value: number) =>
    share ? percent(value) : `${rough(value, 3)} ${score.unit}`.trim();
  const [value, low, high] = [write(score.value), write(score.low), write(score.high)];
  const parts: Content[] = [make("p", { class: "figure" }, value)];
  if (share)
    parts.push(
      onScale({
        label: say("chartScore", { value, low, high }),
        from: 0,
        to: 1,
        value: score.value,
        once: [score.low, score.high],
        always: null,
        truth: null,
      }),
    );
  const moved = liars?.score;
  const told = moved
    ? say("scoreLiars", { even: write(moved.even), waiting: write(moved.waiting) })
    : say("scoreLiarsNone");
  const range = hint(say("scoreRange", { low, high, count: score.n }));
  return [...parts, range, hint(told), hint(score.note)];
}

// --- tables --------------------------------------------------------------------------------------

function cells(tag: "th" | "td", texts: readonly string[], numbers: readonly boolean[]): HTMLElement {
  const scope = tag === "th" ? "col" : undefined;
  const row = texts.map((text, place) =>
    make(tag, { scope, class: numbers[place] ? "number" : undefined, dir: "auto" }, text),
  );
  return make("tr", {}, ...row);
}

function rows(
  head: readonly string[],
  body: readonly (readonly string[])[],
  numbers: readonly boolean[],
): HTMLElement {
  const lines = body.map((line) => cells("td", line, numbers));
  const top = make("thead", {}, cells("th", head, numbers));
  return make("table", {}, top, make("tbody", {}, ...lines));
}

function weights({ coefficients, ended, liars }: TrainingState): HTMLElement {
  if (!coefficients.length) return hint(ended ? "–" : say("coefficientsNone"));
  const lines = coefficients.map(({ name, value, stderr, unit }, at) => [
    unit ? `${name} (${unit})` : name,
    rough(value, 4),
    rough(stderr, 2),
    liars?.coefficients[at] ? `± ${rough(liars.coefficients[at].even, 2)}` : FIGURES.liarsNone,
  ]);
  const head = ["", say("coefficient"), say("noiseAlone"), say("liars")];
  const hints = [hint(say("noiseHint")), hint(say("pathHint"))];
  return make("div", {}, rows(head, lines, [false, true, true, true]), ...hints);
}

function table(rounds: readonly RoundState[]): HTMLElement {
  const lines = rounds.map(({ number, asks, state, people, size }) => [
    whole(number),
    asks.map(({ question }) => question).join(", "),
    say("roundPeople", { people, size }),
    say(STATES[state as keyof typeof STATES] ?? "stateOpen"),
  ]);
  const head = [say("round"), say("roundAsks"), say("roundAnswers"), say("roundState")];
  return rows(head, lines, [true, false, true, false]);
}
