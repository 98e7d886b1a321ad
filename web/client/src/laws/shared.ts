/** What laws share: the sizes of reports, and the domains that they are for. */

import { type Json, type Table, must, whole, wholes } from "../form.js";
import type { Chances, Domain, Law, Loss, Ratio } from "../types.js";

/** A published mechanism: its parameters, and the integers that decide a report. */
export interface Published {
  readonly name: string;
  readonly parameters: Table;
  readonly law: Table;
  readonly broken: boolean;
  /** Make a law that is written inside this one. */
  readonly inner: (document: Json) => Law;
}

const MOST_ITEMS = 1 << 16;

/** Return what all laws have, and what follows from the loss. */
export function law(
  { name, broken }: Published,
  takes: Domain,
  budget: number,
  loss: Loss,
  size: number,
): Pick<Law, "name" | "broken" | "takes" | "budget" | "loss" | "charge" | "size" | "tosses"> {
  const charge = loss.kept ? budget : Math.max(budget, loss.epsilon);
  return { name, broken, takes, budget, loss, charge, size, tosses: false };
}

/** How many bytes hold any of so many symbols. */
export function bytesFor(symbols: number): number {
  let size = 1;
  while (256 ** size < symbols) size++;
  return size;
}

/** Write a whole number below 2^53, lowest byte first. */
export function octets(number: number, size: number): number[] {
  return Array.from({ length: size }, (_, i) => Math.floor(number / 256 ** i) % 256);
}

/** How many bits of a number are set. */
export function bits(number: number): number {
  let count = 0;
  for (; number; number &= number - 1) count++;
  return count;
}

/** Read k, the number of items. */
export function items(parameters: Table): number {
  return whole(parameters["k"], 2, MOST_ITEMS, "k");
}

/** Read the sizes of several attributes: 0 for a number, k for one of k items. */
export function box(parameters: Table): number[] {
  const { d, domains } = parameters;
  const sizes = wholes(domains, MOST_ITEMS, "domains");
  whole(d, sizes.length, sizes.length, "d");
  return sizes;
}

/** Read how many numbers there are, where there is nothing else. */
export function numbers(parameters: Table, most: number): number {
  const sizes = box(parameters);
  must(!sizes.some(Boolean), "domains are numbers");
  return whole(sizes.length, 1, most, "d");
}

/** Refuse a law that is not for all answers of what is asked. A device would refuse some of them
 * only, and its silence tell which. */
export function requireTaken({ name, takes }: Law, asked: Domain): void {
  const same = JSON.stringify(takes) === JSON.stringify(asked);
  must(same, `${name} does not take the answers of this attribute`);
}

/** How often a report about several attributes tells them apart, at most. */
export function together(loss: Loss): Chances {
  return { kind: "together", ratio: decimal(loss.ratio) };
}

function decimal(ratio: Ratio): number {
  return ratio === null ? Infinity : Number((ratio[0] << 64n) / ratio[1]) / 2 ** 64;
}
