/** What would be sent, for the person to see before it is: how likely each report is, and an
 * example that other words draw. The report itself is keyed: who saw it first could choose their
 * noise.
 */

import { askedCells, cellsAt, dated, entry, spread } from "./report.js";
import { share } from "./strategy.js";
import {
  type Answer,
  type Campaign,
  type Explained,
  type Level,
  type Report,
  SPREAD,
} from "./types.js";
import { system } from "./words.js";

/** For each attribute that a report may be about, or for all together, the law of what is sent. */
export function explain(
  campaign: Campaign,
  answers: readonly Answer[],
  level?: Level,
): Explained[] {
  const { cells, sample, ends, strategy } = campaign;
  const own = answers.map((answer) => (answer === SPREAD ? 0 : answer));
  return cellsAt(campaign, level).map((place, group, { length: groups }) => {
    const { attributes, law } = cells[place]!;
    return {
      ...{ attributes, law },
      asked: strategy === "sample" ? share({ groups, many: sample, ends }, group) : 1,
      spread: attributes.some((one) => answers[one] === SPREAD),
      chances: law.chances(attributes.map((one) => own[one]!)),
    };
  });
}

/** Draw a report with fresh words of the operating system; to be shown and thrown away. */
export async function example(
  campaign: Campaign,
  answers: readonly Answer[],
  level?: Level,
  round = new Date().toISOString(),
): Promise<Report> {
  const own = await spread(campaign, answers, system);
  const asked = await askedCells(campaign, level, system());
  const entries = await Promise.all(asked.map((cell) => entry(campaign, cell, own, system, "")));
  const { digest } = campaign;
  return { wire: 1, digest, id: "0".repeat(32), entries, ...dated(campaign, round) };
}
