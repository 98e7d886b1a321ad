/** The live picture: of 100 people who answer like this person, how many would send what.
 *
 * It is worked out here, from the campaign's own law and the answers as they stand; nothing of it is
 * kept or sent.
 */

import {
  type Campaign,
  type Chances,
  encode,
  explain,
  type Explained,
  type Question,
  type Raw,
  type Said,
  sentences,
  Voice,
} from "murmuration-client";
import { type Content, draw, make } from "./page.js";
import { percent, rough, saying } from "./say.js";
import { PARTICIPANT } from "./texts.js";

const say = saying(PARTICIPANT);
const teller = new Voice(sentences.SENTENCES, "en");
/** So many possible reports are listed beside the likeliest one. */
const FEW = 4;
const MOST = 2;
/** Of more numbers than that, it is told how often one near the answer is sent. */
const MANY = 8;
/** A tenth of a range that is from -1 to 1. */
const NEAR = 0.2;
const BINS = 24;

/** What the picture shows about one question: nothing, while it has no answer. */
export interface Told {
  /** The question's name, or that it is about all. */
  readonly name: string;
  readonly parts: readonly Content[];
}

/** Tell, for each question that has an answer, what would be sent. */
export function tell(campaign: Campaign, said: Said): Told[] {
  const { questions } = campaign;
  const has = (name: string) => said.answers[name] !== undefined;
  const answered = questions.map(({ name, of }) => (of.length ? of.every(has) : has(name)));
  const filled = questions.flatMap((one) =>
    one.checks || one.of.length ? [] : [[one.name, said.answers[one.name] ?? stand(one, said)] as const],
  );
  const encoded = encode(campaign, Object.fromEntries(filled));
  const explained = explain(campaign, encoded, said.level);
  const known = explained.filter(({ attributes }) => attributes.every((place) => answered[place]));
  return known.map((one) => {
    const question = questions[one.attributes[0]!]!;
    const name = one.attributes.length > 1 ? say("allQuestions") : question.name;
    const cell = question.labels[encoded[one.attributes[0]!]!] ?? null;
    const answer = question.of.length ? cell : said.answers[question.name];
    return { name, parts: about(question, answer, one) };
  });
}

/** A value in the place of an answer that is not there yet, or that is "no answer". */
function stand({ name, labels, low }: Question, { answers }: Said): Raw {
  return answers[name] === null ? null : (labels[0] ?? low);
}

// --- once it is sent -----------------------------------------------------------------------------

/** Say in words what a report says: what it is about, and what it claims. */
export function said(campaign: Campaign, report: string | null): HTMLElement[] {
  const entries = report === null ? [] : (JSON.parse(report) as { entries: number[][] }).entries;
  return entries.map(([cell, ...octets]) => {
    const { attributes, law } = campaign.cells[cell!]!;
    if (attributes.length > 1) return make("p", { class: "strong" }, say("sentAll"));
    const { name } = campaign.questions[attributes[0]!]!;
    const found = law.chances([0]);
    const symbol = octets.reduceRight((sum, octet) => sum * 256 + octet, 0);
    const what =
      found.kind === "symbols"
        ? named(campaign.questions[attributes[0]!]!, found, symbol)
        : say("sentSet");
    return make("p", { class: "strong", dir: "auto" }, say("sentSays", { name, what }));
  });
}

// --- before --------------------------------------------------------------------------------------

function about(question: Question, answer: Raw, one: Explained): Content[] {
  const parts = chances(question, answer, one);
  if (one.spread) parts.push(make("p", {}, say("spread")));
  if (one.asked < 1)
    parts.push(make("p", { class: "hint" }, say("asked", { chance: percent(one.asked, 0) })));
  return parts;
}

function chances(
  question: Question,
  answer: Raw,
  { chances, law, attributes }: Explained,
): Content[] {
  if (chances.kind === "together") {
    return [make("p", {}, say("together"), " ", sentences.promise(teller, Math.log(chances.ratio)))];
  }
  if (chances.kind === "support") {
    const what = quoted(answer);
    return [
      compared(
        chances.own,
        say("setYou", { count: count(chances.own), what }),
        chances.other,
        say("setOthers", { count: count(chances.other) }),
      ),
    ];
  }
  const place = attributes.length === 1 ? likeliest(chances.probabilities) : 0;
  const other = opposite(question, answer);
  const theirs = law.chances([other]) as Symbols;
  const many = (chances.values?.length ?? 0) > MANY && answer !== null;
  if (many) return numbers(question, Number(answer), chances, theirs, other);
  return symbols(question, answer, chances, place, theirs, other);
}

type Symbols = Extract<Chances, { kind: "symbols" }>;

/** One of a few reports is sent: the likeliest, beside how likely it is from somebody else. */
function symbols(
  question: Question,
  answer: Raw,
  mine: Symbols,
  place: number,
  theirs: Symbols,
  other: number,
): Content[] {
  const names = mine.probabilities.map((_, symbol) => named(question, mine, symbol));
  const own = mine.probabilities[place]!;
  const isOwn = mine.values === null && names[place] === quoted(answer);
  const values = { count: count(own), what: names[place]! };
  const same = theirs.probabilities[place]!;
  const whose = question.labels.length
    ? say("likeAnyOther", { count: count(same) })
    : say("likeOthers", { count: count(same), other: amount(question, other) });
  return [
    compared(own, say(isOwn ? "likeYouYours" : "likeYou", values), same, whose),
    ...rest(names, mine, place),
  ];
}

/** One of many numbers is sent: how often one near the answer, and how all of them are spread. */
function numbers(
  question: Question,
  answer: number,
  mine: Symbols,
  theirs: Symbols,
  other: number,
): Content[] {
  const { low, high, unit } = question;
  const own = Math.min(1, Math.max(-1, (2 * (answer - low)) / (high - low) - 1));
  const near = ({ probabilities, values }: Symbols) =>
    probabilities.reduce(
      (sum, chance, symbol) =>
        sum + (Math.abs((values![symbol] ?? NaN) - own) <= NEAR ? chance : 0),
      0,
    );
  const width = `${rough((NEAR * (high - low)) / 2)} ${unit}`.trim();
  const [here, there] = [near(mine), near(theirs)];
  const far = { count: count(there), other: amount(question, other) };
  return [
    compared(here, say("nearYou", { count: count(here), width }), there, say("nearOthers", far)),
    histogram(question, mine, own),
  ];
}

/** How the numbers are spread that people with this answer would send; the answer is a line. */
function histogram(
  question: Question,
  { probabilities, values }: Symbols,
  own: number,
): HTMLElement {
  const [least, most] = [Math.min(...values!), Math.max(...values!)];
  const shares = Array.from({ length: BINS }, () => 0);
  for (const [symbol, value] of values!.entries()) {
    const bin = Math.min(BINS - 1, Math.floor(((value - least) / (most - least)) * BINS));
    shares[bin]! += probabilities[symbol]!;
  }
  const top = Math.max(...shares);
  const bars = shares.map((share, bin) => {
    const height = (share / top) * 20;
    return draw("rect", { x: bin * 4 + 0.3, y: 22 - height, width: 3.4, height, class: "own" });
  });
  const x = ((own - least) / (most - least)) * BINS * 4;
  const answer = draw("line", { x1: x, x2: x, y1: 0, y2: 22, class: "answer" });
  const drawing = draw("svg", {
    viewBox: `0 0 ${BINS * 4} 22`,
    class: "spread",
    "aria-hidden": "true",
  });
  drawing.append(...bars, answer);
  const ends = { low: amount(question, least), high: amount(question, most) };
  return make(
    "figure",
    {},
    drawing,
    make("figcaption", { class: "hint" }, say("spreadOver", ends)),
  );
}

/** What the others of the hundred would send. */
function rest(names: readonly string[], { probabilities }: Symbols, place: number): Content[] {
  const others = [...names.keys()].filter((symbol) => symbol !== place);
  others.sort((one, other) => probabilities[other]! - probabilities[one]!);
  const shown = others.slice(0, others.length > FEW ? MOST : FEW);
  const rows = shown.map((symbol) =>
    make(
      "li",
      { dir: "auto" },
      say("oneSent", { what: names[symbol]!, count: count(probabilities[symbol]!) }),
    ),
  );
  const left = others.slice(shown.length);
  const share = left.reduce((sum, symbol) => sum + probabilities[symbol]!, 0);
  if (left.length)
    rows.push(make("li", {}, say("more", { count: left.length, share: count(share) })));
  return rows.length ? [make("p", {}, say("elseSent")), make("ul", {}, ...rows)] : [];
}

/** Two hundreds side by side: people like this person, and others. */
function compared(own: number, mine: string, same: number, theirs: string): HTMLElement {
  const one = make("figure", {}, waffle(own, "own"), make("figcaption", { dir: "auto" }, mine));
  const other = make(
    "figure",
    {},
    waffle(same, "other"),
    make("figcaption", { dir: "auto" }, theirs),
  );
  return make("div", { class: "waffles" }, one, other);
}

function waffle(share: number, whose: string): SVGElement {
  const filled = Math.round(share * 100);
  const dots = Array.from({ length: 100 }, (_, dot) =>
    draw("circle", {
      cx: (dot % 10) + 0.5,
      cy: Math.floor(dot / 10) + 0.5,
      r: 0.38,
      class: dot < filled ? whose : "else",
    }),
  );
  return draw("svg", { viewBox: "0 0 10 10", class: "waffle", "aria-hidden": "true" }, ...dots);
}

function likeliest(probabilities: readonly number[]): number {
  return probabilities.indexOf(Math.max(...probabilities));
}

/** Another answer, encoded: the far end of a range, any other label. */
function opposite({ labels, low, high }: Question, answer: Raw): number {
  if (labels.length) return answer === labels[0] ? 1 : 0;
  return Number(answer ?? low) < (low + high) / 2 ? 1 : -1;
}

/** A report's name: a label, or a number in the question's own unit. */
function named(question: Question, { values }: Symbols, symbol: number): string {
  if (values === null) return quoted(question.labels[symbol] ?? null);
  const value = values[symbol];
  return value === undefined ? say("none") : amount(question, value);
}

function amount({ low, high, unit }: Question, value: number): string {
  return `${rough(low + ((value + 1) / 2) * (high - low))} ${unit}`.trim();
}

function quoted(answer: Raw): string {
  return answer === null ? say("none") : say("quoted", { label: String(answer) });
}

function count(share: number): string {
  const people = share * 100;
  return people >= 1 || people === 0 ? String(Math.round(people)) : rough(people, 1);
}
