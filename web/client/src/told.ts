/** What will be sent, in plain words: how likely which report is, for the answers as they stand. */

import { folded, make } from "./dom.js";
import { cost, promise, reserve } from "./sentences.js";
import type { Speaker } from "./texts.js";
import type { Campaign, Chances, Explained, Question } from "./types.js";
import type { Preview } from "./client.js";

/** So many possibilities are listed one by one; of more only the likeliest. */
const FEW = 8;
const TOP = 3;

/** Tell a preview; the example is beneath it. */
export function told(campaign: Campaign, preview: Preview, speaker: Speaker): HTMLElement[] {
  const { loss, most, reserved, explained, example } = preview;
  const costs = [cost(speaker, most), ...(reserved ? [reserve(speaker, reserved)] : [])];
  const parts = [
    make("p", {}, promise(speaker, loss)),
    make("ul", { part: "chances" }, ...explained.map((one) => about(campaign, one, speaker))),
    make("p", {}, costs.join(" ")),
  ];
  if (!example) return parts;
  const shown = make("pre", { part: "report", tabindex: "0" }, JSON.stringify(example));
  return [...parts, make("p", {}, speaker.say("example")), shown];
}

/** Tell what is sent about one attribute, or about all together. */
function about(campaign: Campaign, one: Explained, speaker: Speaker): HTMLElement {
  const names = one.attributes.map((place) => campaign.questions[place]!.name).join(", ");
  const chance = speaker.percent(one.asked);
  const key = one.asked < 1 ? "aboutChance" : "about";
  const title = make("strong", { dir: "auto" }, speaker.say(key, { name: names, chance }));
  const [first] = one.attributes;
  return make("li", {}, title, ...likely(campaign.questions[first!]!, one, speaker));
}

function likely(question: Question, one: Explained, speaker: Speaker): HTMLElement[] {
  const { chances } = one;
  if (chances.kind === "together") return [make("p", {}, speaker.say("together"))];
  if (chances.kind === "support") {
    const [own, other] = [chances.own, chances.other].map((part) => speaker.percent(part));
    return [make("p", {}, speaker.say("support", { own: own!, other: other! }))];
  }
  return chances.values ? numbers(question, chances, speaker) : items(question, chances, speaker);
}

type Symbols = Extract<Chances, { kind: "symbols" }>;

/** A number's report is one of several numbers, in the question's own unit; none comes last. */
function numbers(question: Question, chances: Symbols, speaker: Speaker): HTMLElement[] {
  const { low, high, unit } = question;
  const values = (chances.values ?? []).map((value) => low + ((value + 1) / 2) * (high - low));
  const shown = (value: number) => `${speaker.rough(value)} ${unit}`.trim();
  const names = chances.probabilities.map((_, place) => {
    const value = values[place];
    return value === undefined ? speaker.say("noAnswer") : shown(value);
  });
  const ends = { low: shown(Math.min(...values)), high: shown(Math.max(...values)) };
  const many = speaker.say("valuesMany", { count: values.length, ...ends });
  return listed(names, chances, many, speaker);
}

/** An item's report is an item. */
function items(question: Question, chances: Symbols, speaker: Speaker): HTMLElement[] {
  const { probabilities } = chances;
  const names = probabilities.map((_, place) => question.labels[place] ?? speaker.say("noAnswer"));
  return listed(names, chances, speaker.say("itemsMany", { count: names.length }), speaker);
}

/** All possibilities, if they are few; else how many there are, and the likeliest. */
function listed(
  names: readonly string[],
  { probabilities }: Symbols,
  many: string,
  speaker: Speaker,
): HTMLElement[] {
  const places = names.map((_, place) => place);
  const likeliest = places.sort((one, other) => probabilities[other]! - probabilities[one]!);
  const rows = likeliest.slice(0, names.length > FEW ? TOP : FEW).map((place) => {
    const chance = speaker.percent(probabilities[place]!);
    return make("li", { dir: "auto" }, speaker.say("item", { label: names[place]!, chance }));
  });
  const first = names.length > FEW ? many : speaker.say("few");
  return [make("p", {}, first), make("ul", {}, ...rows)];
}

/** The report as it was sent. */
export function sentReport(report: string | null, speaker: Speaker): HTMLElement[] {
  if (report === null) return [];
  return [folded(speaker.say("asSent"), make("pre", { part: "report", tabindex: "0" }, report))];
}
