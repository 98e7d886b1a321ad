/** e^epsilon and ln, never guessed: fractions that are certainly below, and doubles that are
 * certainly not below.
 */

import type { Ratio } from "./types.js";

type Fraction = readonly [bigint, bigint];

const ONE = 1n << 256n;
const CLOSE = 1e-12;
const MOST_KNOWN = 4096;

/** A double as a fraction, exactly. */
export function fraction(number: number): Fraction {
  let scale = 1n;
  for (; !Number.isInteger(number); number *= 2) scale *= 2n;
  return [BigInt(number), scale];
}

/** Tell whether ratio <= e^epsilon, decided exactly. (They are never equal: that is irrational.)
 * Where they are far apart doubles can tell, which are off by some units of the last place. */
export function within(ratio: Ratio, epsilon: number): boolean {
  if (ratio === null) return false;
  const apart = logNear(ratio) / epsilon - 1;
  return Math.abs(apart) > CLOSE ? apart < 0 : !larger(ratio, expOnce(epsilon));
}

/** Whether the one fraction is larger than the other; null is infinite. */
export function larger(one: Ratio, other: Ratio): boolean {
  if (one === null || other === null) return one === null && other !== null;
  return one[0] * other[1] > other[0] * one[1];
}

export function times(one: Ratio, other: Ratio): Ratio {
  return one && other && [one[0] * other[0], one[1] * other[1]];
}

/** Return the smallest double that is at least ln(ratio), for a ratio of 1 or more: a step or two
 * from one that is near it. */
export function logAbove(ratio: Ratio): number {
  if (ratio === null) return Infinity;
  let found = logNear(ratio);
  while (larger(ratio, exp(found))) found = next(found, 1n);
  while (found > 0 && !larger(ratio, exp(next(found, -1n)))) found = next(found, -1n);
  return found;
}

/** ln(ratio) to some units of its last place, also where it is next to nothing. */
export function logNear(ratio: Ratio): number {
  if (ratio === null) return Infinity;
  const [above, below] = ratio;
  let shift = bits(above) - bits(below);
  if (below << BigInt(shift) > above) shift--;
  const scaled = below << BigInt(shift);
  const digits = 80 + bits(scaled) - bits(above - scaled);
  const rest = Number(((above - scaled) << BigInt(digits)) / scaled);
  // In two steps: 2^-digits alone may be too small for a double.
  const [half, other] = [digits >> 1, (digits + 1) >> 1];
  return Math.log1p(rest * 2 ** -half * 2 ** -other) + shift * Math.LN2;
}

function bits(number: bigint): number {
  return number.toString(2).length;
}

/** Return the next double up (1n) or down (-1n), of one above 0. */
export function next(number: number, step: bigint): number {
  const pattern = new BigInt64Array(new Float64Array([number]).buffer);
  pattern[0]! += step;
  return new Float64Array(pattern.buffer)[0]!;
}

/** Return a fraction below e^exponent, for an exponent of 0 or more: by less than 2^-240 of it, and
 * of what it is more than 1. */
export function exp(exponent: number): Fraction {
  const [above, below] = fraction(exponent);
  const one = ONE * below;
  let [sum, term] = [0n, one];
  for (let i = 1n; term; i++) {
    sum += term;
    term = (term * above) / (i * below);
  }
  return [sum, one];
}

const known = new Map<number, Fraction>();

/** The same for a budget, which many laws have: worked out once, unless there are too many. */
function expOnce(epsilon: number): Fraction {
  if (known.size >= MOST_KNOWN) known.clear();
  const found = known.get(epsilon) ?? exp(epsilon);
  known.set(epsilon, found);
  return found;
}
