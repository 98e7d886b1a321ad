/** What reports cost, exactly: a number stands for the decimal that it prints as.
 *
 * So 0.1 is one tenth, ten of them are 1, and every decision is made on integers. JavaScript and
 * Python print a double with the same digits, so both charge the same.
 */

import { MurmurationError } from "./errors.js";

/** In units of 10^-344, which is finer than any double; `Infinity` is the only number. */
export type Cost = bigint | number;

const PLACES = 344;
const DECIMAL = /^(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/;

/** Return a cost or a limit exactly. */
export function exact(value: number | string): Cost {
  const text = String(value);
  if (text === "Infinity" || text === "inf") return Infinity;
  const found = DECIMAL.exec(text);
  if (!found) {
    throw new MurmurationError("parameter", `a cost is a number, 0 or more; got ${text}`);
  }
  const [, whole = "", part = "", power = "0"] = found;
  return BigInt((whole + part).padEnd(whole.length + PLACES + Number(power), "0"));
}

/** Write a cost: the shortest decimal, or inf. */
export function written(cost: Cost): string {
  if (typeof cost === "number") return "inf";
  const digits = cost.toString().padStart(PLACES + 1, "0");
  const part = digits.slice(-PLACES).replace(/0+$/, "");
  return digits.slice(0, -PLACES) + (part && `.${part}`);
}

/** Return a cost as a number, for people. */
export function approximate(cost: Cost): number {
  return cost === Infinity ? Infinity : Number(written(cost));
}

export function sum(costs: readonly Cost[]): Cost {
  let total = 0n;
  for (const cost of costs) {
    if (typeof cost === "number") return Infinity;
    total += cost;
  }
  return total;
}

export function larger(one: Cost, other: Cost): Cost {
  return one > other ? one : other;
}

/** Return what is left of a cost without another, at least nothing; of infinity, infinity. */
export function less(all: Cost, part: Cost): Cost {
  if (typeof part === "number") return 0n;
  if (typeof all === "number") return all;
  return larger(all - part, 0n);
}
