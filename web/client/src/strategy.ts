/** Which attributes a report is about, how that is drawn, and what it can cost at worst. */

import { larger } from "./exponential.js";
import { must } from "./form.js";
import { product } from "./loss.js";
import type { Ratio } from "./types.js";
import { WHOLE, type Words } from "./words.js";

/** How many of some groups of laws a report names. */
export interface Sample {
  readonly groups: number;
  readonly many: number;
  /** How often each is asked, as cumulative weights of 2^52; null: all alike. */
  readonly ends: readonly number[] | null;
}

/** Return a sample, or say what is wrong with it. */
export function sample(groups: number, many: number, ends: readonly number[] | null): Sample {
  const rising = ends && [...ends, WHOLE].every((end, i) => end > (i ? ends[i - 1]! : 0));
  must(
    !ends || (many === 1 && rising && ends.length === groups - 1),
    "ends go up, one less than attributes, where one is asked",
  );
  return { groups, many, ends };
}

/** Draw the groups that a report names, in ascending order. */
export function named({ groups, many, ends }: Sample, words: Words): number[] {
  if (ends) {
    const word = words.word();
    return [ends.filter((end) => end <= word).length];
  }
  if (many === 1) return [words.below(groups)];
  const drawn = Array.from({ length: groups }, (_, group) => ({ group, word: words.word() }));
  const first = drawn.sort((a, b) => a.word - b.word).slice(0, many);
  return first.map(({ group }) => group).sort((a, b) => a - b);
}

/** How likely a group is to be named. */
export function share({ groups, many, ends }: Sample, group: number): number {
  if (!ends) return many / groups;
  return ((ends[group] ?? WHOLE) - (ends[group - 1] ?? 0)) / WHOLE;
}

/** Return the largest ratio of a report that names so many: those of the costliest multiply. */
export function costliest(ratios: readonly Ratio[], many: number): Ratio {
  const order = [...ratios].sort((one, other) =>
    larger(one, other) ? -1 : larger(other, one) ? 1 : 0,
  );
  return product(order.slice(0, many));
}
