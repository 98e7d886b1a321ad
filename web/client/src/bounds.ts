/** What the reports of one person tell: one report at a level, and all of them together. */

import { logAbove } from "./exponential.js";
import { cellsAt } from "./report.js";
import { costliest } from "./strategy.js";
import type { Campaign, Law, Level } from "./types.js";

/** Return the exact loss of one report at a level: the product of the ratios of the costliest laws
 * that it can name. */
export function lossAt(campaign: Campaign, level?: Level): number {
  const laws = cellsAt(campaign, level).map((place) => campaign.cells[place]!.law);
  const ratios = laws.map((law) => law.loss.ratio);
  return logAbove(costliest(ratios, Math.min(campaign.sample, ratios.length)));
}

/** What all reports of a question that comes back tell, and whether values may change meanwhile. */
export interface Bound {
  readonly loss: number;
  /** It holds whatever the answers do; else as long as each stays as it is. */
  readonly hidden: boolean;
}

/** Return the bound on all reports together; null where a device reports once.
 *
 * Each law has a permanent answer of its own (in each spell). No more laws are asked than there are
 * entries in all reports: the costliest.
 */
export function boundOf(campaign: Campaign): Bound | null {
  const { cells, rounds, sample, repeated, spells } = campaign;
  if (!repeated || rounds < 2) return null;
  const losses = cells.map(({ law }) => overTime(law, rounds, spells?.length ?? rounds));
  const largest = losses.sort((one, other) => other - one).slice(0, rounds * sample);
  return { loss: largest.reduce((sum, loss) => sum + loss, 0), hidden: spells !== null };
}

function overTime({ permanent }: Law, rounds: number, length: number): number {
  const tells = (reports: number) => (reports ? logAbove(permanent!.tell(reports)) : 0);
  return Math.floor(rounds / length) * tells(length) + tells(rounds % length);
}
