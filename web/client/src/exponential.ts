/** e^epsilon and ln, never guessed: fractions that are certainly below, and doubles that are
 * certainly not below.
 */

import type { Ratio } from "./types.js";

type Fraction = readonly [bigint, bigint];

const ONE = 1n << 256n;

/** A double as a fraction, exactly. */
export function fraction(number: number): Fraction {
  let scale = 1n;
  for (; !Number.isInteger(number); number *= 2) scale *= 2n;
  return [BigInt(number), scale];
}

/** Tell whether ratio <= e^epsilon, decided exactly. (They are never equal: that is irrational.) */
export function within(ratio: Ratio, epsilon: number): boolean {
  return ratio !== null && !larger(ratio, exp(epsilon));
}

/** Whether the one fraction is larger than the other; null is infinite. */
export function larger(one: Ratio, other: Ratio): boolean {
  if (one === null || other === null) return one === null && other !== null;
  return one[0] * other[1] > other[0] * one[1];
}

export function times(one: Ratio, other: Ratio): Ratio {
  return one && other && [one[0] * other[0], one[1] * other[1]];
}

/** Return the smallest double that is at least ln(ratio), for a ratio of 1 or more. */
export function logAbove(ratio: Ratio): number {
  if (ratio === null) return Infinity;
  let found = near(ratio);
  while (larger(ratio, exp(found))) found = next(found, 1n);
  while (found > 0 && !larger(ratio, exp(next(found, -1n)))) found = next(found, -1n);
  return found;
}

/** ln(ratio) to some units of the last place. */
function near([above, below]: Fraction): number {
  const shift = bits(above) - bits(below);
  const scaled = below << BigInt(shift);
  const rest = Number(((above - scaled) << 80n) / scaled) / 2 ** 80;
  return Math.max(0, Math.log1p(rest) + shift * Math.LN2);
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

const known = new Map<number, Fraction>();

/** Return a fraction below e^exponent, by less than 2^-240 of it, for an exponent of 0 or more. */
export function exp(exponent: number): Fraction {
  const before = known.get(exponent);
  if (before) return before;
  const [above, below] = fraction(exponent);
  let [sum, term] = [0n, ONE];
  for (let i = 1n; term; i++) {
    sum += term;
    term = (term * above) / (i * below);
  }
  const found = [sum, ONE] as const;
  known.set(exponent, found);
  return found;
}
