/** What will be sent, in plain words: how likely which report is, for the answers as they stand. */

import { folded, make } from "./dom.js";
import type { Speaker } from "./texts.js";
import type { Campaign, Chances, Explained, Question } from "./types.js";
import type { Preview } from "./client.js";

/** So many possibilities are listed one by one. */
const FEW = 8;

/** Tell a preview; the example is beneath it. */
export function told(campaign: Campaign, preview: Preview, speaker: Speaker): HTMLElement[] {
  const { most, reserved, explained, example } = preview;
  const cost = [speaker.say("cost", { cost: most })];
  if (reserved) cost.push(speaker.say("costFirst", { reserved }));
  const parts = [
    make("p", {}, speaker.say("promise", { times: speaker.times(campaign.loss.epsilon) })),
    make("ul", { part: "chances" }, ...explained.map((one) => about(campaign, one, speaker))),
    make("p", {}, cost.join(" ")),
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

/** A number's report is one of a few numbers, in the question's own unit; none comes last. */
function numbers(question: Question, chances: Symbols, speaker: Speaker): HTMLElement[] {
  const { low, high, unit } = question;
  const values = (chances.values ?? []).map((value) => low + ((value + 1) / 2) * (high - low));
  const shown = (value: number) => `${speaker.number(value)} ${unit}`.trim();
  if (chances.probabilities.length > FEW) {
    const ends = { low: shown(Math.min(...values)), high: shown(Math.max(...values)) };
    return [make("p", {}, speaker.say("valuesMany", { count: values.length, ...ends }))];
  }
  const names = chances.probabilities.map((_, place) => {
    const value = values[place];
    return value === undefined ? speaker.say("noAnswer") : shown(value);
  });
  return [make("p", {}, speaker.say("valuesFew")), listed(names, chances, speaker)];
}

/** A label's report is a label; that of a number's shape is a range. */
function items(question: Question, chances: Symbols, speaker: Speaker): HTMLElement[] {
  const { probabilities } = chances;
  const most = Math.max(...probabilities);
  const count = probabilities.length;
  if (!question.labels.length) {
    return [make("p", {}, speaker.say("shape", { count, chance: speaker.percent(most) }))];
  }
  if (count <= FEW) {
    const names = probabilities.map((_, place) => question.labels[place] ?? speaker.say("noAnswer"));
    return [make("p", {}, speaker.say("itemsFew")), listed(names, chances, speaker)];
  }
  const own = speaker.percent(most);
  const other = speaker.percent(Math.min(...probabilities));
  return [make("p", {}, speaker.say("itemsMany", { own, count: count - 1, other }))];
}

function listed(names: readonly string[], { probabilities }: Symbols, speaker: Speaker): HTMLElement {
  const rows = names.map((label, place) => {
    const chance = speaker.percent(probabilities[place]!);
    return make("li", { dir: "auto" }, speaker.say("item", { label, chance }));
  });
  return make("ul", {}, ...rows);
}

/** The report as it was sent. */
export function sentReport(report: string | null, speaker: Speaker): HTMLElement[] {
  if (report === null) return [];
  return [folded(speaker.say("asSent"), make("pre", { part: "report", tabindex: "0" }, report))];
}
