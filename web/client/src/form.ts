/** The one form in which a campaign is published: JSON as Python writes it.
 *
 * Another spelling of the same campaign would have another digest, which could tell devices apart:
 * so what was read is written again, and the texts must be the same.
 */

import { MurmurationError } from "./errors.js";
import { FLOATS, LEAST_EPSILON, MOST_EPSILON, MOST_TEXT } from "./protocol.js";

export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };
export type Table = { [key: string]: Json };

/** The keys whose numbers are written with a point, or an exponent. All others are whole. */
const FLOATING = new Set(FLOATS.split(" "));

const MOST_DEPTH = 16;

/** Write JSON as it is published. Nothing is nested deeper than weights of a law inside another. */
export function written(value: Json, key = "", depth = 0): string {
  must(depth < MOST_DEPTH, "it is nested without end");
  if (typeof value === "number") return FLOATING.has(key) ? float(value) : String(value);
  if (typeof value === "string") return text(value);
  if (value === null || typeof value === "boolean") return String(value);
  if (!Array.isArray(value)) return object(Object.entries(value), depth);
  if (key === "levels") return object(value as [string, Json][], depth, key);
  // Weights are many, and this is fast.
  if (typeof value[0] === "number" && !FLOATING.has(key)) return JSON.stringify(value);
  const [name] = value;
  const pair = key === "settings" && typeof name === "string";
  return `[${value.map((one) => written(one, pair ? name : key, depth + 1)).join()}]`;
}

/** Write pairs of keys and values. */
function object(pairs: readonly [string, Json][], depth: number, numbers?: string): string {
  const parts = pairs.map(
    ([key, one]) => `${text(key)}:${written(one, numbers ?? key, depth + 1)}`,
  );
  return `{${parts.join()}}`;
}

function text(value: string): string {
  return JSON.stringify(value).replace(
    /[\x7f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Write a double with the digits that Python writes it with. */
export function float(number: number): string {
  const [digits, power] = number.toExponential().split("e") as [string, string];
  if (number && (Number(power) < -4 || Number(power) > 15)) {
    return `${digits}e${power[0]}${power.slice(1).padStart(2, "0")}`;
  }
  const plain = Object.is(number, -0) ? "-0" : String(number);
  return plain.includes(".") ? plain : `${plain}.0`;
}

/** Return a refusal of a document. */
export function bad(message: string): MurmurationError {
  return new MurmurationError("format", `the campaign cannot be used: ${message}`);
}

/** Refuse what does not hold. */
export function must(holds: unknown, message: string): asserts holds {
  if (!holds) throw bad(message);
}

/** Return a table that has these keys and no others, in this order. `key=default` is left out at
 * its default, where there is one order of them. Refuse an unknown key: it may change what a report means. */
export function table(value: Json | undefined, keys: string, what: string, inOrder = true): Table {
  const given = Object.keys(value ?? 0);
  const usual = keys.split(" ").map((key) => key.split("="));
  const order = usual.flatMap(([key, fallback]) => (given.includes(key!) || !fallback ? key! : []));
  if (!inOrder) [given, order].forEach((keys) => keys.sort());
  const known = given.length === order.length && given.every((key, i) => key === order[i]);
  must(known && typeof value === "object", `${what} has the keys ${keys}, and no others`);
  const found = value as Table;
  const spelled = usual.find(
    ([key, fallback]) => inOrder && fallback && JSON.stringify(found[key!]) === fallback,
  );
  must(!spelled, `${what}: a default is left out, ${spelled?.[0]}`);
  return found;
}

/** Return a document with the keys that are known. Others are terms of a later release: they only
 * inform, as whatever changes what a device does is in the collection. */
export function passingOver(value: Json, keys: string): Table {
  const known = new Set(keys.split(" ").map((key) => key.split("=")[0]));
  return Object.fromEntries(Object.entries(value ?? {}).filter(([key]) => known.has(key)));
}

/** Return a list of 1 to so many. */
export function list(value: Json | undefined, most: number, what: string): Json[] {
  must(
    Array.isArray(value) && value.length && value.length <= most,
    `${what}: a list of 1 to ${most}`,
  );
  return value;
}

export function texts(value: Json, what: string): string[] {
  must(
    Array.isArray(value) && value.every((one) => typeof one === "string" && short(one)),
    `${what} are texts of up to ${MOST_TEXT} characters`,
  );
  return value as string[];
}

/** Whether a text has no more code points than a device looks at: Unicode NFC of long ones takes the
 * square of their length. */
function short(text: string): boolean {
  return text.length <= 2 * MOST_TEXT && [...text].length <= MOST_TEXT;
}

/** Return a whole number from low to high. */
export function whole(value: Json | undefined, low: number, high: number, what: string): number {
  const fits =
    typeof value === "number" && Number.isInteger(value) && low <= value && value <= high;
  must(fits, `${what} is a whole number from ${low} to ${high}`);
  return value;
}

/** Return a list of whole numbers from 0 on. */
export function wholes(value: Json | undefined, high: number, what: string): number[] {
  must(Array.isArray(value), `${what} is a list`);
  return value.map((one) => whole(one, 0, high, what));
}

/** Return a budget. */
export function budget(value: Json | undefined): number {
  const fits = typeof value === "number" && value >= LEAST_EPSILON && value <= MOST_EPSILON;
  must(fits, `epsilon is ${LEAST_EPSILON} to ${MOST_EPSILON}`);
  return value;
}
