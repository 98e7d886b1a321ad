/** PrivUnit: one of a few public random vectors, near the private one more often.
 *
 * A seed that no answer decides expands to vectors of whole coordinates; they and their opposites
 * are the candidates. Sent is the number of one: its weight goes by how near it is, and by nothing
 * else. All of it is exact in integers.
 */

import {
  apart,
  budget,
  fixedPoint,
  type Json,
  law,
  lossOf,
  must,
  numbers,
  octets,
  picked,
  table,
  WHOLE,
  whole,
  wholes,
} from "../core.js";
import { PRIVUNIT } from "../protocol.js";
import type { Law } from "../types.js";

const LARGEST = 1024;
const MOST_CANDIDATES = 2048;
/** The number of one of so many candidates is a byte; of more, two. */
const ONE_BYTE = 256;
const BLOCK = 16;
const FINE = 2 ** 30;
const TOP = 127;
/** Shorter vectors have no direction: their squares are not exact. */
const TOO_SHORT = 1e-100;
const SPLITMIX = ["11400714819323198485", "13787848793156543929", "10723151780598845931"];
const [GAMMA, FIRST, SECOND] = SPLITMIX.map(BigInt) as [bigint, bigint, bigint];
const [PARAMETERS, LAW] = PRIVUNIT;
/** What is added and taken off again to round to the nearest whole number, halves to even. */
const ROUNDER = 1.5 * WHOLE;

/** Return the law of a published privunit, with its exact loss. */
export function privunit(document: Json): Law {
  const found = table(document, "mechanism parameters law", "a mechanism");
  must(found["mechanism"] === "privunit", "vectors are answered by privunit");
  const parameters = table(found["parameters"], PARAMETERS, "privunit: parameters");
  const published = table(found["law"], LAW, "privunit: law");
  const d = numbers(parameters, LARGEST);
  const size = whole(parameters["candidates"], 2, MOST_CANDIDATES, "candidates");
  whole(parameters["keep"], 1, size / 2, "keep");
  must(Number.isInteger(Math.log2(size)), "candidates are a power of two");
  const weights = wholes(published["weights"], WHOLE, "weights");
  const sum = weights.reduce((total, weight) => total + weight, 0);
  must(weights.length === size && sum === WHOLE, "a weight for each candidate, 2^52 in all");
  const coordinates = (published["coordinates"] as number[]).map((one) =>
    whole(one, -TOP, TOP, "coordinates"),
  );
  const unit = whole(published["unit"], 1, 1 << 15, "unit");
  const usual =
    coordinates.length === 256 &&
    published["fine"] === FINE &&
    published["block"] === BLOCK &&
    JSON.stringify(published["splitmix64"]) === JSON.stringify(SPLITMIX);
  must(usual, "privunit's numbers are others than this program knows");
  const ratio = apart(Math.max(...weights), Math.min(...weights));
  const promised = budget(parameters["epsilon"]);
  const loss = lossOf(ratio, promised);
  const bytes = size <= ONE_BYTE ? 1 : 2;
  const head = { name: "privunit", parameters, law: published, broken: false, inner: privunit };
  return {
    ...law(head, { kind: "ball", d }, promised, loss, 4 + bytes),
    tosses: true,
    respond: (vector, own, coins) => {
      const seed = Math.floor(coins.word() / 2 ** 20);
      const [coin, rank] = [own.word(), own.word()];
      const order = ordered(vector, seed, coin, size, unit, coordinates);
      return [...octets(seed, 4), ...octets(order[picked(weights, rank)]!, bytes)];
    },
    chances: () => ({ kind: "together", ratio: Math.max(...weights) / Math.min(...weights) }),
  };
}

/** Return the candidates, the nearest to u or, for a short u, maybe to -u first. */
function ordered(
  vector: readonly number[],
  seed: number,
  coin: number,
  size: number,
  unit: number,
  coordinates: readonly number[],
): number[] {
  const length = Math.min(Math.sqrt(vector.reduce((sum, one) => sum + one * one, 0)), 1);
  const forward = coin < fixedPoint(length) ? 1 : -1;
  const padded = Math.ceil(vector.length / BLOCK) * BLOCK;
  const scale = length > TOO_SHORT ? FINE / length : 0;
  const sign = stream(seed, size / 2, padded);
  const fine = Array.from({ length: padded }, (_, i) => {
    const whole = i < vector.length ? rounded(vector[i]! * scale) : 0;
    return sign[i]! >> 7 ? whole : -whole;
  });
  const aim = turned(fine).map((one) => forward * rounded(one * (unit / (FINE * 4))));
  const half = size / 2;
  const products = Array.from({ length: half }, (_, number) => {
    const octets = stream(seed, number, padded);
    return aim.reduce((sum, one, i) => sum + one * coordinates[octets[i]!]!, 0);
  });
  const keys = Array.from({ length: size }, (_, i) =>
    i < half ? -products[i]! * size + i : products[i - half]! * size + i,
  );
  return [...keys.keys()].sort((one, other) => keys[one]! - keys[other]!);
}

function rounded(number: number): number {
  return number + ROUNDER - ROUNDER;
}

/** Every block times the Hadamard matrix: sums of whole numbers, exact. */
function turned(numbers: readonly number[]): number[] {
  return numbers.map((_, place) => {
    const [first, column] = [place - (place % BLOCK), place % BLOCK];
    let sum = 0;
    for (let row = 0; row < BLOCK; row++) {
      let odd = row & column;
      odd ^= odd >> 2;
      odd ^= odd >> 1;
      sum += odd & 1 ? -numbers[first + row]! : numbers[first + row]!;
    }
    return sum;
  });
}

/** The bytes of one of a seed's vectors: SplitMix64 from the state 2^32 seed. */
function stream(seed: number, number: number, padded: number): Uint8Array {
  const words = padded / 8;
  const view = new DataView(new ArrayBuffer(padded));
  for (let i = 0; i < words; i++) {
    const count = BigInt(number * words + i + 1);
    view.setBigUint64(8 * i, mixed(count * GAMMA + (BigInt(seed) << 32n)), true);
  }
  return new Uint8Array(view.buffer);
}

function mixed(start: bigint): bigint {
  let state = BigInt.asUintN(64, start);
  state = BigInt.asUintN(64, (state ^ (state >> 30n)) * FIRST);
  state = BigInt.asUintN(64, (state ^ (state >> 27n)) * SECOND);
  return state ^ (state >> 31n);
}
