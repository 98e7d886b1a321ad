/** What would be sent, for the person to see before it is: how likely each report is, and an example
 * that other words draw. The report itself is keyed: who saw it first could choose their noise.
 */

import { askedCells, entry, spread } from "./report.js";
import { share } from "./strategy.js";
import { type Answer, type Campaign, type Explained, type Level, type Report, SPREAD } from "./types.js";
import { system } from "./words.js";

/** For each attribute that a report may be about (or all together), the exact law of what is sent. */
export function explain(campaign: Campaign, answers: readonly Answer[], level?: Level): Explained[] {
  const { questions, levels, cells, sample, ends, strategy } = campaign;
  const per = Math.max(levels.length, 1);
  const groups = cells.length / per;
  return Array.from({ length: groups }, (_, group) => {
    const name = questions[group]!.name;
    const chosen = typeof level === "object" ? level[name] : level;
    const at = Math.max(0, levels.findIndex((offer) => offer.name === chosen));
    const { attributes, law } = cells[group * per + at]!;
    const spread = attributes.some((one) => answers[one] === SPREAD);
    const own = attributes.map((one) => (answers[one] === SPREAD ? 0 : answers[one]!));
    const asked = strategy === "sample" ? share({ groups, many: sample, ends }, group) : 1;
    return { attributes, asked, spread, law, chances: law.chances(own) };
  });
}

/** Draw a report with fresh words of the operating system; to be shown and thrown away. */
export async function example(campaign: Campaign, answers: readonly Answer[], level?: Level): Promise<Report> {
  const own = await spread(campaign, answers, system);
  const asked = await askedCells(campaign, level, system());
  const entries = await Promise.all(asked.map((cell) => entry(campaign, cell, own, system, "")));
  return { wire: 1, digest: campaign.digest, id: "0".repeat(32), entries };
}
