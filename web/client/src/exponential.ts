/** e^epsilon and ln, never guessed: fractions that are certainly below, and doubles that are
 * certainly not below. The same digits as Python's, so both languages decide alike.
 */

import type { Ratio } from "./types.js";

type Fraction = readonly [bigint, bigint];

const DIGITS = 60;
const BITS = 400n;
const HALVINGS = 16n;
const MARGIN = 10n ** BigInt(DIGITS - 2);

/** A double as a fraction, exactly. */
export function fraction(number: number): Fraction {
  let scale = 1n;
  for (; !Number.isInteger(number); number *= 2) scale *= 2n;
  return [BigInt(number), scale];
}

/** Return a fraction just below e^exponent: ratios capped by it never exceed the budget. */
export function expBelow(exponent: number): Fraction {
  const [above, below] = exp(exponent);
  return [above * (MARGIN - 1n), below * MARGIN];
}

/** Tell whether ratio <= e^epsilon, decided exactly. (They are never equal: e^epsilon is irrational.) */
export function within(ratio: Ratio, epsilon: number): boolean {
  return ratio !== null && !larger(ratio, expBelow(epsilon));
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

/** Return e^exponent to 60 digits, for an exponent of 0 or more. */
function exp(exponent: number): Fraction {
  const before = known.get(exponent);
  if (before) return before;
  const found = rounded(series(rounded(fraction(exponent), DIGITS + 10)), DIGITS);
  known.set(exponent, found);
  return found;
}

/** Sum the series for a small part of the exponent, then square as often as it was halved. */
function series([above, below]: Fraction): Fraction {
  const part = ((above << BITS) / below) >> HALVINGS;
  let [sum, term] = [0n, 1n << BITS];
  for (let i = 1n; term; i++) {
    sum += term;
    term = ((term * part) >> BITS) / i;
  }
  for (let i = 0n; i < HALVINGS; i++) sum = (sum * sum) >> BITS;
  return [sum, 1n << BITS];
}

/** Return the nearest fraction of so many decimal digits; of two, the even one. */
function rounded([above, below]: Fraction, digits: number): Fraction {
  if (!above) return [0n, 1n];
  let power = digits + String(below).length - String(above).length;
  let [left, right] = scaled(above, below, power);
  if (left >= right * 10n ** BigInt(digits)) [left, right] = scaled(above, below, --power);
  let whole = left / right;
  const rest = 2n * (left - whole * right);
  if (rest > right || (rest === right && whole & 1n)) whole++;
  return scaled(whole, 1n, -power);
}

/** Return above/below times a power of ten. */
function scaled(above: bigint, below: bigint, power: number): Fraction {
  const ten = 10n ** BigInt(Math.abs(power));
  return power < 0 ? [above, below * ten] : [above * ten, below];
}
