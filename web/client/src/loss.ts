/** The verdict on a law: the exact worst case, and whether the promise is kept. */

import { larger, logAbove, logNear, times, within } from "./exponential.js";
import { float } from "./form.js";
import type { Loss, Ratio } from "./types.js";

/** The loss of a law with one budget. */
export function lossOf(ratio: Ratio, promised: number): Loss {
  return {
    ratio,
    kept: within(ratio, promised),
    get epsilon() {
      return logAbove(ratio);
    },
    get words() {
      return cost(this.epsilon, "", promised);
    },
    toJSON,
  };
}

/** The loss between ranges, each pair against a budget of its own: `ratios[g][h]`. */
export function pairwise(
  ratios: readonly (readonly Ratio[])[],
  budgets: readonly (readonly number[])[],
): Loss {
  const pairs = ratios.flatMap((row, g) =>
    row.map((ratio, h) => ({ ratio, g, h, most: budgets[g]![h]! })),
  );
  const ratio = most(pairs.map((pair) => pair.ratio));
  return {
    ratio,
    kept: pairs.every((pair) => within(pair.ratio, pair.most)),
    get epsilon() {
      return logAbove(ratio);
    },
    get words() {
      const named = new Set([worst(pairs, () => 1), worst(pairs, (pair) => pair.most)]);
      return [...named]
        .map((pair) => cost(logAbove(pair.ratio), where(pair.g, pair.h), pair.most))
        .join(", and ");
    },
    toJSON,
  };
}

/** JSON has no whole numbers of any size: a fraction is two texts there. */
function toJSON(this: Loss): object {
  const { ratio, kept, epsilon } = this;
  return { ratio: ratio && ratio.map(String), kept, epsilon };
}

interface Pair {
  readonly ratio: Ratio;
  readonly most: number;
}

/** The first pair with the largest loss, in some unit; exact logarithms are for those near it. */
function worst<P extends Pair>(pairs: readonly P[], unit: (pair: P) => number): P {
  const sizes = (some: readonly P[], log: (ratio: Ratio) => number) =>
    some.map((pair) => log(pair.ratio) / unit(pair));
  const rough = sizes(pairs, logNear);
  const near = Math.max(...rough) * (1 - 1e-12);
  const close = pairs.filter((_, i) => rough[i]! >= near);
  const found = sizes(close, logAbove);
  return close[found.indexOf(Math.max(...found))]!; // of 65 times 65 at most
}

function cost(epsilon: number, place: string, promised: number): string {
  const amount = epsilon < Infinity ? `a loss of ${float(epsilon)}` : "an infinite loss";
  return `${amount}${place} where ${float(promised)} is promised`;
}

function where(g: number, h: number): string {
  return g === h ? ` inside range ${g + 1}` : ` between ranges ${g + 1} and ${h + 1}`;
}

/** Return the larger of a/b and b/a, the loss between two probabilities; null if one of them is 0.
 * 0/0 is no report. */
export function apart(one: bigint | number, other: bigint | number): Ratio {
  const [a, b] = [BigInt(one), BigInt(other)];
  if (a === b) return [1n, 1n];
  const [high, low] = a > b ? [a, b] : [b, a];
  return low ? [high, low] : null;
}

/** Return the largest ratio. */
export function most(ratios: readonly Ratio[]): Ratio {
  return ratios.reduce((worst, ratio) => (larger(ratio, worst) ? ratio : worst), [1n, 1n] as Ratio);
}

/** Return the largest of tops[j]/bottoms[j], or 1, exactly: doubles find those that are near it. */
export function largest(tops: readonly number[], bottoms: readonly number[]): Ratio {
  const quotient = (j: number) => (tops[j] ? tops[j] / bottoms[j]! : 0);
  // A quotient of integers up to 2^52 is off by 2^-53 of itself: the largest is near the largest.
  const near = tops.reduce((one, _, j) => Math.max(one, quotient(j)), 1) * (1 - 2 ** -51);
  if (near === Infinity) return null;
  let [top, bottom] = [1, 1];
  tops.forEach((one, j) => {
    const other = bottoms[j]!;
    if (quotient(j) < near || (one === top && other === bottom)) return;
    const above = BigInt(one) * BigInt(bottom) > BigInt(top) * BigInt(other);
    if (above) [top, bottom] = [one, other];
  });
  return [BigInt(top), BigInt(bottom)];
}

/** What reports tell that are sent together: the ratios multiply. */
export function product(ratios: readonly Ratio[]): Ratio {
  return ratios.reduce<Ratio>(times, [1n, 1n]);
}
