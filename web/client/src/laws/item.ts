/** Laws for one of k items. A report *supports* some items: the own one more often than others. */

import { type Table, budget, must, table, whole } from "../form.js";
import { apart, lossOf } from "../loss.js";
import type { Chances, Law, Ratio } from "../types.js";
import { WHOLE, type Words } from "../words.js";
import { type Published, bits, bytesFor, items, law, octets } from "./shared.js";

const HALF_WORD = 2 ** 32;
/** Of so many reports about one value the exact loss is worked out. */
const MOST_ALIKE = 512;
const PRIMES = [65_521, 2_147_483_647];
const MOST_ROWS = 1 << 22;
const MOST_VECTORS = 1 << 26;

/** What all of them have, from the ratio of the two probabilities that tell two items apart. */
function itemLaw(published: Published, ratio: Parameters<typeof lossOf>[0], size: number) {
  const { parameters } = published;
  const promised = budget(parameters["epsilon"]);
  const takes = { kind: "items", k: items(parameters) } as const;
  return law(published, takes, promised, lossOf(ratio, promised), size);
}

function support(own: number, other: number): () => Chances {
  return () => ({ kind: "support", own, other });
}

// --- randomised response, and what is made of it ------------------------------------------------

export interface Response {
  readonly truth: number;
  readonly lie: number;
}

/** Read the weights of randomised response on k items: truth + (k-1) lie = 2^52. */
export function response({ truth, lie }: Table, k: number): Response {
  const own = whole(truth, 1, WHOLE, "truth");
  const other = whole(lie, 1, WHOLE, "lie");
  must(own + (k - 1) * other === WHOLE, "truth and lies add up to 2^52");
  return { truth: own, lie: other };
}

/** The own item, or any other: one word, compared with the weights. */
function ownOrOther(item: number, { truth, lie }: Response, words: Words): number {
  const word = words.word() - truth;
  if (word < 0) return item;
  const other = Math.floor(word / lie);
  return other + Number(other >= item);
}

function symmetric(k: number, own: number, other: number): Law["chances"] {
  return ([item]) => ({
    kind: "symbols",
    probabilities: Array.from({ length: k }, (_, i) => (i === item ? own : other)),
    values: null,
  });
}

export function grr(published: Published): Law {
  const k = items(published.parameters);
  const weights = response(published.law, k);
  const size = bytesFor(k);
  return {
    ...itemLaw(published, apart(weights.truth, weights.lie), size),
    respond: ([item], own) => octets(ownOrOther(item!, weights, own), size),
    chances: symmetric(k, weights.truth / WHOLE, weights.lie / WHOLE),
  };
}

/** A permanent answer by randomised response, and fresh noise on it for every report. */
export function memoised(published: Published): Law {
  const k = items(published.parameters);
  const { memory, ratio, own, other, permanent, size, tell, repeat } = kept(published, k);
  const remember = (item: number, words: Words) => ownOrOther(item, memory, words);
  return {
    ...itemLaw(published, ratio, size),
    charge: permanent,
    permanent: { byValue: true, tell, remember, repeat },
    respond: ([item], words) => repeat(remember(item!, words), words),
    chances: symmetric(k, own, other),
  };
}

/** What laws share that keep one of k symbols and repeat it with noise. */
export function kept({ parameters, law: weights }: Published, k: number) {
  const memory = response(table(weights["permanent"], "truth lie", "permanent"), k);
  const noise = response({ truth: weights["keep"]!, lie: weights["swap"]! }, k);
  const [own, other] = composed(memory, noise, k);
  const permanent = budget(parameters["permanent"]);
  const long = lossOf(apart(memory.truth, memory.lie), permanent);
  must(long.kept, `permanent answers cost ${long.words}`);
  const [size, square] = [bytesFor(k), WHOLE ** 2];
  const repeat = (answer: number, words: Words) => octets(ownOrOther(answer, noise, words), size);
  return {
    ...{ memory, permanent, size, repeat, ratio: apart(own, other) },
    tell: (reports: number) => alike(memory, noise, k, reports),
    ...{ own: Number(own) / square, other: Number(other) / square },
  };
}

/** The weights, out of 2^104, of the own item and of any other in a report. */
function composed(memory: Response, noise: Response, k: number): [bigint, bigint] {
  const [P, L] = [BigInt(memory.truth), BigInt(memory.lie)];
  const [K, S] = [BigInt(noise.truth), BigInt(noise.lie)];
  const others = BigInt(k - 1) * L * S;
  return [P * K + others, L * K + P * S + others - L * S];
}

/** What so many reports about one value tell: at worst all of them say the value itself. Of more
 * than a device writes out, what any number of them tells. */
function alike(memory: Response, noise: Response, k: number, reports: number): Ratio {
  if (reports > MOST_ALIKE) return apart(memory.truth, memory.lie);
  const [P, L, others] = [BigInt(memory.truth), BigInt(memory.lie), BigInt(k - 1)];
  const [K, S] = [BigInt(noise.truth), BigInt(noise.lie)].map((weight) => weight ** BigInt(reports));
  return apart(P * K! + others * L * S!, L * K! + (P + (others - 1n) * L) * S!);
}

/** A random hash of the item to a few cells, and randomised response on the cell. */
export function olh(published: Published): Law {
  const k = items(published.parameters);
  const cells = whole(published.law["cells"], 2, 1 << 16, "cells");
  const prime = whole(published.law["prime"], k + 1, PRIMES[1]!, "prime");
  must(PRIMES.includes(prime), "prime is 65521 or 2^31 - 1");
  const weights = response(published.law, cells);
  const width = prime === PRIMES[0] ? 2 : 4;
  const [p, same] = [weights.truth / WHOLE, collision(prime, cells)];
  return {
    ...itemLaw(published, apart(weights.truth, weights.lie), 2 * width + bytesFor(cells)),
    tosses: true,
    respond: ([item], own, coins) => {
      const [a, b] = [coins.below(prime), coins.below(prime)];
      const cell = Math.floor((((a * item! + b) % prime) * cells) / prime);
      const sent = ownOrOther(cell, weights, own);
      return [...octets(a, width), ...octets(b, width), ...octets(sent, bytesFor(cells))];
    },
    chances: support(p, p * same + (weights.lie / WHOLE) * (1 - same)),
  };
}

/** How likely two items have the same hash: cells are as equal as whole numbers allow. */
function collision(prime: number, cells: number): number {
  const [size, larger] = [Math.floor(prime / cells), prime % cells];
  return (larger * (size + 1) ** 2 + (cells - larger) * size ** 2) / prime ** 2;
}

// --- one bit ------------------------------------------------------------------------------------

/** Whether a number has an odd count of set bits. */
function parity(number: number): number {
  return bits(number) & 1;
}

/** Whether to lie about a bit. */
function lies(weights: Response, words: Words): number {
  return Number(words.word() >= weights.truth);
}

/** A law of one bit by randomised response: it supports half of the items. */
function oneBit(published: Published, symbols: number) {
  const weights = response(published.law, 2);
  return {
    weights,
    size: bytesFor(symbols),
    common: {
      ...itemLaw(published, apart(weights.truth, weights.lie), bytesFor(symbols)),
      chances: support(weights.truth / WHOLE, 1 / 2),
    },
  };
}

function powerOfTwo(least: number): number {
  let power = 1;
  while (power < least) power *= 2;
  return power;
}

export interface Hadamard extends Law {
  readonly rows: number;
  /** The noisy entry at an item's column, in a row that was drawn elsewhere. */
  bit(item: number, row: number, own: Words): number;
}

/** One bit of the item's column in a random row of a Hadamard matrix. */
export function hadamard(published: Published): Hadamard {
  const rows = powerOfTwo(items(published.parameters));
  whole(published.law["rows"], rows, rows, "rows");
  const { weights, size, common } = oneBit(published, 2 * rows);
  const bit = (item: number, row: number, own: Words) => parity(row & item) ^ lies(weights, own);
  return {
    ...common,
    rows,
    bit,
    tosses: true,
    respond: ([item], own, coins) => {
      const row = Math.floor(coins.word() / (WHOLE / rows));
      return octets(2 * row + bit(item!, row, own), size);
    },
  };
}

/** A number whose bits agree with the item's more often than not. Its first word is no public coin:
 * what is sent may be another number, and given the first one it would tell the item. */
export function hadamardResponse(published: Published): Law {
  const symbols = powerOfTwo(items(published.parameters) + 1);
  whole(published.law["symbols"], symbols, symbols, "symbols");
  const { weights, size, common } = oneBit(published, symbols);
  return {
    ...common,
    respond: ([item], own) => {
      const column = item! + 1;
      const y = Math.floor(own.word() / (WHOLE / symbols));
      const wrong = parity(y & column) !== lies(weights, own);
      return octets(wrong ? y ^ (column & -column) : y, size);
    },
  };
}

/** One bit of the item's column in a random sign matrix that a seed makes. */
export function bassilySmith(published: Published): Law {
  const rows = whole(published.law["rows"], 2, MOST_ROWS, "rows");
  const seed = whole(published.law["seed"], 0, HALF_WORD - 1, "seed");
  const { weights, size, common } = oneBit(published, 2 * rows);
  return {
    ...common,
    tosses: true,
    respond: ([item], own, coins) => {
      const row = coins.below(rows);
      const sign = mix(mix(mix(seed) ^ row) + item!) & 1;
      return octets(2 * row + (sign ^ lies(weights, own)), size);
    },
  };
}

/** Stir 32 bits. */
function mix(number: number): number {
  let mixed = (number + 0x9e3779b9) | 0;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x7feb352d);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x846ca68b);
  return mixed ^ (mixed >>> 16);
}

// --- many bits ----------------------------------------------------------------------------------

/** An independent bit for each item: `sue` and `oue`. Two to a word. */
export function unary(published: Published): Law {
  const k = items(published.parameters);
  const [yes, no] = ["yes", "no"].map((key) =>
    whole(published.law[key], 1, HALF_WORD - 1, key),
  ) as [number, number];
  const [p, q, all] = [BigInt(yes), BigInt(no), BigInt(HALF_WORD)];
  return {
    ...itemLaw(published, apart(p * (all - q), q * (all - p)), Math.ceil(k / 8)),
    respond: ([item], own) => {
      const rows = new Uint8Array(Math.ceil(k / 8));
      const halves = own.halves(k + (k % 2));
      for (let i = 0; i < k; i++)
        if (halves[i]! < (i === item ? yes : no)) rows[i >> 3]! |= 1 << (i & 7);
      return [...rows];
    },
    chances: support(yes / HALF_WORD, no / HALF_WORD),
  };
}

/** A random set of items that holds the own one more often than not; as k bits. */
export function subset(published: Published): Law {
  const { law: weights, parameters } = published;
  const k = items(parameters);
  const holds = whole(weights["holds"], 1, WHOLE - 1, "holds");
  const w = whole(weights["size"], ...sizes(parameters, k), "size");
  const [level, digits] = firstCoins(k, w);
  whole(weights["level"], level, level, "level");
  whole(weights["digits"], digits, digits, "digits");
  const [p, odds] = [
    holds / WHOLE,
    apart(BigInt(holds) * BigInt(k - w), BigInt(WHOLE - holds) * BigInt(w)),
  ];
  return {
    ...itemLaw(published, odds, Math.ceil(k / 8)),
    respond: ([item], own) => {
      const held = own.word() < holds;
      const set = fewCoins(k, w, item!, level, digits, own);
      for (let missing = w + 1 - members(set).length; missing;) {
        for (const other of own.allBelow(k, missing)) {
          missing -= Number(!has(set, other));
          set[other >> 3]! |= 1 << (other & 7);
        }
      }
      flip(set, item!, true);
      const other = members(set)[own.below(w)]!;
      flip(set, other, held);
      flip(set, item!, held);
      return [...set];
    },
    chances: support(p, (p * (w - 1) + (1 - p) * w) / (k - 1)),
  };
}

/** The least and the largest size of sets: next to k/(e^epsilon + 1). Other sets could be drawn for
 * ever. */
function sizes(parameters: Table, k: number): [number, number] {
  const ideal = k / (Math.exp(budget(parameters["epsilon"])) + 1);
  return [Math.max(1, Math.floor(ideal - 1e-6)), Math.max(1, Math.ceil(ideal + 1e-6))];
}

/** The rate of the first coins, level / 2^digits: somewhat below w/k, so that few are tossed again. */
function firstCoins(k: number, w: number): [level: number, digits: number] {
  let digits = 3 + ((32 - Math.clz32(k)) >> 1);
  const few = Math.max(0, w - Math.sqrt(w * (1 - w / k)));
  let level = Math.floor((few / k) * 2 ** digits);
  for (; digits && !(level & 1); digits--) level >>= 1;
  return [level, digits];
}

/** Toss a coin for each item, all again while more come out than are wanted. The own item counts as
 * a member all along, so that it is never drawn. */
function fewCoins(k: number, w: number, item: number, level: number, digits: number, own: Words) {
  const set = new Uint8Array(Math.ceil(k / 8));
  do {
    set.fill(0);
    // From the lowest binary digit of the rate up: "or" with fair bits takes r to (1 + r)/2.
    for (let digit = 0; digit < digits; digit++) {
      const fair = own.octets(set.length);
      for (let i = 0; i < set.length; i++) {
        set[i] = (level >> digit) & 1 ? set[i]! | fair[i]! : set[i]! & fair[i]!;
      }
    }
    set[set.length - 1]! &= 255 >> (8 * set.length - k);
    set[item >> 3]! |= 1 << (item & 7);
  } while (members(set).length > w + 1);
  return set;
}

function has(set: Uint8Array, item: number): boolean {
  return Boolean((set[item >> 3]! >> (item & 7)) & 1);
}

function flip(set: Uint8Array, item: number, really: boolean): void {
  set[item >> 3]! ^= Number(really) << (item & 7);
}

/** The items in a set, from the first on. */
function members(set: Uint8Array): number[] {
  const found = [];
  for (let item = 0; item < 8 * set.length; item++) if (has(set, item)) found.push(item);
  return found;
}

// --- a point of a projective space --------------------------------------------------------------

/** The points of the projective space of t-vectors over the field of r elements. */
function points(r: number, t: number): number {
  return (r ** t - 1) / (r - 1);
}

/** A point that lies on the item's plane more often than not. */
export function projective(published: Published): Law {
  const k = items(published.parameters);
  const r = whole(published.law["prime"], 2, MOST_VECTORS ** 0.5, "prime");
  const t = whole(published.law["dimension"], 2, 26, "dimension");
  const inside = whole(published.law["inside"], 1, WHOLE - 1, "inside");
  must(
    prime(r) && r ** t <= MOST_VECTORS && points(r, t) >= k,
    "prime and dimension have no point for each item",
  );
  const [all, plane, both] = [points(r, t), points(r, t - 1), points(r, t - 2)];
  const odds = apart(BigInt(inside) * BigInt(all - plane), BigInt(WHOLE - inside) * BigInt(plane));
  const size = bytesFor(all);
  const p = inside / WHOLE;
  return {
    ...itemLaw(published, odds, size),
    respond: ([item], own) => {
      const outside = own.word() >= inside;
      const many = r ** (t - 1);
      const free = outside ? own.below(many) : 1 + own.below(many - 1);
      return octets(place(around(coordinates(item!, r, t), free, Number(outside), r), r), size);
    },
    chances: support(p, (p * both) / plane + ((1 - p) * (plane - both)) / (all - plane)),
  };
}

function prime(r: number): boolean {
  for (let d = 2; d * d <= r; d++) if (r % d === 0) return false;
  return true;
}

/** The coordinates of a point, the first that is not 0 a 1. */
function coordinates(item: number, r: number, t: number): number[] {
  let [lead, rest] = [0, item];
  for (; rest >= r ** (t - 1 - lead); lead++) rest -= r ** (t - 1 - lead);
  const tail = Array.from(
    { length: t - 1 - lead },
    (_, i) => Math.floor(rest / r ** (t - 2 - lead - i)) % r,
  );
  return [...Array<number>(lead).fill(0), 1, ...tail];
}

/** Lay free coordinates around the plane's leading one, which then makes the product right. */
function around(plane: number[], free: number, product: number, r: number): number[] {
  const lead = plane.indexOf(1);
  const vector = plane.map((_, i) =>
    i === lead ? 0 : Math.floor(free / r ** (i - Number(i > lead))) % r,
  );
  const sum = vector.reduce((found, one, i) => found + one * plane[i]!, 0);
  vector[lead] = (((product - sum) % r) + r) % r;
  return vector;
}

/** The number of a vector's point: scale to a leading 1, then read off the place. */
function place(vector: number[], r: number): number {
  const t = vector.length;
  const lead = vector.findIndex(Boolean);
  const scale = inverse(vector[lead]!, r);
  return vector.reduce(
    (found, one, i) => found + r ** (t - 1 - i) * (i < lead ? 1 : i > lead ? (one * scale) % r : 0),
    0,
  );
}

function inverse(number: number, r: number): number {
  let power = 1;
  for (let i = 0; i < r - 2; i++) power = (power * number) % r;
  return power;
}
