/** Who may collect: a campaign whose laws keep their budgets, one by one and together, or whose
 * operator says word for word what they cost.
 */

import { MurmurationError } from "./errors.js";
import { fraction, larger } from "./exponential.js";
import { lossOf, most } from "./loss.js";
import { costliest } from "./strategy.js";
import type { Campaign, Law, Loss, Ratio } from "./types.js";

type Derived = "loss" | "most" | "repeated" | "canSayNone" | "prepaysNone";

/** Return the campaign, if it may be sent to, with what follows from its laws. */
export function admitted(campaign: Omit<Campaign, Derived>): Campaign {
  const { cells, epsilon, acceptLoss, levels, sample, questions, rounds, name } = campaign;
  const laws = cells.map((cell) => cell.law);
  if (acceptLoss !== null && !laws.some((law) => law.broken)) {
    throw refused("accept_loss is for a law that breaks its promise: none does");
  }
  laws.forEach((law) => requireKept(law, acceptLoss));
  const groups = grouped(laws, levels.length);
  requireTogether(campaign, groups, epsilon);
  levels.forEach((level, i) =>
    requireTogether(
      campaign,
      groups.map((group) => [group[i]!]),
      level.epsilon,
    ),
  );
  const repeated = laws.every((law) => law.permanent);
  if (rounds > 1 && !repeated)
    throw refused(`${name}: only a repeated question is asked more than once`);
  if (campaign.every !== null && !repeated)
    throw refused(`${name}: periods are those of a repeated question`);
  if (campaign.spells && levels.length) throw refused("spells take no levels"); // each would begin one
  if (rounds > 1 && campaign.chosen !== "freely")
    throw refused("levels by lot are for one round"); // they stay, and would name a device
  const canSayNone = questions.every((question) => question.missing);
  const charges = groups.map((group) => Math.max(...group.map((law) => law.charge)));
  return {
    ...campaign,
    loss: together(groups, sample, epsilon),
    most: charges.sort((a, b) => b - a).slice(0, sample),
    repeated,
    canSayNone,
    prepaysNone: repeated && !campaign.spells && canSayNone,
  };
}

/** Return the laws by group: those of one attribute, or the one of all together. */
function grouped(laws: readonly Law[], levels: number): Law[][] {
  const per = Math.max(levels, 1);
  return Array.from({ length: laws.length / per }, (_, group) =>
    laws.slice(group * per, (group + 1) * per),
  );
}

/** Refuse a law that breaks its promise, unless its cost is accepted word for word. */
function requireKept({ name, loss, broken }: Law, acceptLoss: string | null): void {
  if (loss.kept || (broken && loss.words === acceptLoss)) return;
  const accepted = broken && acceptLoss !== null ? ", and accept_loss says something else" : "";
  throw refused(`${name} is refused: it costs ${loss.words}${accepted}`);
}

/** The exact loss of one report: the product of the ratios of the costliest groups that it names.
 * Which these are is drawn independently of the answers, and tells nothing. */
function together(groups: readonly Law[][], many: number, promised: number): Loss {
  const worst = groups.map((group) => most(group.map((law) => law.loss.ratio)));
  return lossOf(costliest(worst, many), promised);
}

/** Refuse laws that, in one report, cost more than is promised. What was accepted in words is about
 * single laws: then their budgets, kept or not, must add up. */
function requireTogether(
  { name, sample, acceptLoss }: Pick<Campaign, "name" | "sample" | "acceptLoss">,
  groups: readonly Law[][],
  promised: number,
): void {
  if (acceptLoss === null) {
    const loss = together(groups, sample, promised);
    if (!loss.kept) throw refused(`${name}: a report has ${loss.words}`);
    return;
  }
  const budgets = groups.map((group) => Math.max(...group.map((law) => law.budget)));
  const sum = budgets
    .sort((a, b) => b - a)
    .slice(0, sample)
    .map(fraction)
    .reduce(plus);
  if (larger(sum, fraction(promised))) {
    throw refused(`${name}: the budgets of a report's entries come to more than ${promised}`);
  }
}

function plus(one: NonNullable<Ratio>, other: NonNullable<Ratio>): NonNullable<Ratio> {
  return [one[0] * other[1] + other[0] * one[1], one[1] * other[1]];
}

function refused(message: string): MurmurationError {
  return new MurmurationError("promise", `${message}. Nothing was sent.`);
}
