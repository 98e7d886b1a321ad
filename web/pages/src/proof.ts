/** The audit as a page: the browser fetches the rules, checks them, and says how much any report can
 * tell, and for which two answers.
 */

import { type Campaign, type Cell, type Law, type Loss, readDocument, Voice } from "murmuration-client";
import { type Content, facts, folded, frame, make, section } from "./page.js";
import { rough, saying, whole } from "./say.js";
import { PROOF } from "./texts.js";
import { type Published, type Witness, witness } from "./witness.js";

const say = saying(PROOF);
const teller = new Voice({}, "en");
/** /c/NAME/proof */
const NAME = location.pathname.split("/").at(-2)!;
const ADDRESS = new URL(`../../v1/campaigns/${NAME}`, location.href).href;
/** A fraction longer than that is shown by its loss alone. */
const LONG = 60;
/** Of a rule's whole numbers so many characters are shown. */
const SHOWN = 20_000;

const back = make("a", { href: `../${NAME}` }, say("back"));
const main = frame(
  say("title"),
  [back],
  make("h1", {}, say("title")),
  make("p", { role: "status" }, say("loading")),
);

/** The part of a document that the library does not hand out: the whole numbers themselves. */
interface Raw {
  readonly cells: readonly {
    readonly mechanism: string;
    readonly parameters: object;
    readonly law: Published;
  }[];
}

void check();

async function check(): Promise<void> {
  try {
    const answer = await fetch(ADDRESS, { cache: "no-store" });
    const bytes = new Uint8Array(await answer.arrayBuffer());
    if (!answer.ok) throw new Error(String(answer.status));
    const campaign = await readDocument(bytes, { address: ADDRESS });
    const text = (JSON.parse(new TextDecoder().decode(bytes)) as { collection: string }).collection;
    show(campaign, JSON.parse(text) as Raw);
  } catch (problem) {
    refuse((problem as Error).message);
  }
}

function refuse(message: string): void {
  main.replaceChildren(
    make("h1", {}, say("title")),
    make(
      "p",
      { role: "alert", class: "verdict broken" },
      `${say("refused")} ${message} ${say("refusedWhy")}`,
    ),
  );
}

function show(campaign: Campaign, raw: Raw): void {
  const { loss } = campaign;
  const groups = grouped(campaign, raw);
  const kept = campaign.cells.filter(({ law }) => law.loss.kept).length;
  main.replaceChildren(
    make(
      "div",
      { class: "intro" },
      make("h1", {}, say("title")),
      make("p", { class: "purpose", dir: "auto" }, campaign.purpose || campaign.name),
      make("p", { class: "lead" }, say("lead")),
    ),
    verdict(loss),
    section(
      say("whole"),
      "whole",
      facts([
        ...lossRows(loss, campaign.epsilon),
        [say("digest"), make("code", {}, campaign.digest)],
      ]),
    ),
    section(
      say("rules"),
      "rules",
      make("p", {}, say("of", { kept, count: campaign.cells.length })),
      ...groups,
    ),
  );
}

function verdict({ kept }: Loss): HTMLElement {
  return make(
    "p",
    { class: `verdict ${kept ? "kept" : "broken"}`, role: "status" },
    say(kept ? "verdictKept" : "verdictBroken"),
  );
}

function badge({ kept }: Loss): HTMLElement {
  return make("span", { class: kept ? "state" : "state closed" }, say(kept ? "kept" : "broken"));
}

function lossRows(loss: Loss, promised: number): [string, Content][] {
  return [
    [say("promised"), say("epsilon", { epsilon: whole(promised) })],
    [say("lossIs"), exactly(loss)],
    [say("oddsIs"), say("factor", { times: teller.times(loss.epsilon) })],
  ];
}

function exactly({ ratio, epsilon }: Loss): string {
  if (!ratio) return say("infinite");
  const [above, below] = reduced(ratio);
  const fraction = `${above} / ${below}`;
  return fraction.length > LONG
    ? String(epsilon)
    : say("lossValue", { loss: String(epsilon), fraction });
}

function reduced([above, below]: readonly [bigint, bigint]): [bigint, bigint] {
  let [a, b] = [above, below];
  while (b) [a, b] = [b, a % b];
  return [above / a, below / a];
}

// --- one rule ------------------------------------------------------------------------------------

/** Rules that are alike (fifty ages, say) are shown once, with all that they are about. */
function grouped(campaign: Campaign, raw: Raw): HTMLElement[] {
  const groups = new Map<string, number[]>();
  for (const [place, { mechanism, parameters }] of raw.cells.entries()) {
    const key = JSON.stringify([mechanism, parameters]);
    groups.set(key, [...(groups.get(key) ?? []), place]);
  }
  return [...groups.values()].map((places) => rule(campaign, places, raw));
}

function rule(campaign: Campaign, places: readonly number[], raw: Raw): HTMLElement {
  const cell = campaign.cells[places[0]!]!;
  const { law } = cell;
  const published = raw.cells[places[0]!]!.law;
  const found = witness(law, published);
  const names = places.map((place) => about(campaign, campaign.cells[place]!));
  const how = found ? say("arithmeticTable", { cells: found.cells }) : say("arithmeticClosed");
  const rows: [string, Content][] = [
    ...lossRows(law.loss, law.budget),
    [say("reached"), reached(campaign, cell, found)],
    ...(law.permanent
      ? [[say("permanent"), say("epsilon", { epsilon: whole(law.charge) })] as [string, Content]]
      : []),
    [say("arithmetic"), how],
    [say("rests"), say("restsValue")],
  ];
  const ratio = law.loss.ratio
    ? `${say("lawFraction")}: ${reduced(law.loss.ratio).join(" / ")}\n\n`
    : "";
  const shown = make("pre", { tabindex: "0" }, ratio + JSON.stringify(published).slice(0, SHOWN));
  return make(
    "article",
    { class: "rule" },
    make(
      "h3",
      { dir: "auto" },
      names.slice(0, 5).join(", "),
      names.length > 5 ? ` … (${whole(names.length)})` : "",
    ),
    make("p", { class: "hint" }, badge(law.loss), ` ${say("mechanism")}: ${law.name}`),
    facts(rows),
    folded(say("law"), shown),
  );
}

function about({ questions, levels }: Campaign, { attributes, level }: Cell): string {
  const name = attributes.length > 1 ? say("everything") : questions[attributes[0]!]!.name;
  return levels.length ? `${name} ${say("level", { level: levels[level]!.name })}` : name;
}

/** The two answers, in the question's own words. */
function reached(
  campaign: Campaign,
  { attributes, law }: Cell,
  found: Witness | undefined,
): string {
  const question = campaign.questions[attributes[0]!]!;
  if (attributes.length > 1) return say("ends");
  if (!found && !(law.permanent && law.takes.kind === "number")) {
    return closed(law, question.labels);
  }
  const shown = (value: number) => {
    if (Number.isNaN(value)) return say("noAnswer");
    return `${rough(question.low + ((value + 1) / 2) * (question.high - question.low), 4)} ${question.unit}`.trim();
  };
  const { one, other } = found ?? { one: -1, other: 1 }; // of a kept bit, the two ends
  const pair = say("reachedValue", { one: shown(one), other: shown(other) });
  if (!found) return pair;
  return `${pair}, ${say("byReport", { report: shown(found.report) })}`;
}

/** Laws for items treat all of them alike, so that any two will do; unless hashing may make two the same. */
function closed(law: Law, labels: readonly string[]): string {
  const [one, other] = labels;
  if (law.takes.kind !== "items" || !one || !other) return say("notFound");
  if (law.name === "bassily-smith") return say("someTwo");
  return say("anyTwoLabels", { one: `“${one}”`, other: `“${other}”` });
}
