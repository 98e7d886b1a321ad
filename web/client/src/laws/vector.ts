/** Laws for several attributes at once: one report about all of them. */

import { budget, list, must, whole, wholes } from "../form.js";
import { apart, lossOf } from "../loss.js";
import { costliest, named, sample } from "../strategy.js";
import type { Law } from "../types.js";
import { WHOLE } from "../words.js";
import type { Hadamard } from "./item.js";
import { evenGrid } from "./number.js";
import {
  type Published,
  bits,
  box,
  law,
  numbers,
  octets,
  requireTaken,
  together,
} from "./shared.js";

const MOST_CORNERS = 1024;
const LARGEST_BLOCK = 12;
const THRESHOLDS = 64;
const MOST_ATTRIBUTES = 1000;

function combinations(n: number, k: number): bigint {
  let found = 1n;
  for (let i = 0; i < k; i++) found = (found * BigInt(n - i)) / BigInt(i + 1);
  return found;
}

/** What a law has that makes `near` of all reports likely, with the weight `inside` together. */
function sided(published: Published, d: number, near: bigint, all: bigint, size: number) {
  const inside = whole(published.law["inside"], 1, WHOLE - 1, "inside");
  const ratio = apart(BigInt(inside) * (all - near), BigInt(WHOLE - inside) * near);
  const promised = budget(published.parameters["epsilon"]);
  const loss = lossOf(ratio, promised);
  const takes = { kind: "box", sizes: Array<number>(d).fill(0) } as const;
  return {
    inside,
    common: { ...law(published, takes, promised, loss, size), chances: () => together(loss) },
  };
}

/** A corner of the cube that agrees with most of the vector's signs, more often than not. */
export function corners(published: Published): Law {
  const d = numbers(published.parameters, MOST_CORNERS);
  whole(published.law["bits"], d, d, "bits");
  const all = 1n << BigInt(d);
  const near = (all - (d % 2 ? 0n : combinations(d, d / 2))) / 2n;
  const size = Math.ceil(d / 8);
  const grid = evenGrid(1);
  const { inside, common } = sided(published, d, near, all, size);
  return {
    ...common,
    respond: (values, own) => {
      const signs = values.map((x) => grid.round(x, own.word()));
      const wanted = own.word() < inside;
      for (;;) {
        const corner = own.octets(8 * Math.ceil(d / 64)).slice(0, size);
        corner[size - 1]! &= 255 >> (8 * size - d);
        const agree = signs.filter((sign, i) => ((corner[i >> 3]! >> (i & 7)) & 1) === sign).length;
        if (2 * agree > d === wanted) return [...corner];
      }
    },
  };
}

/** The signs of a block of coordinates against random thresholds, answered together. */
export function block(published: Published): Law {
  const d = numbers(published.parameters, MOST_ATTRIBUTES);
  const { law: weights } = published;
  const size = whole(weights["size"], 1, Math.min(LARGEST_BLOCK, d), "size");
  const agreements = whole(weights["agreements"], Math.floor(size / 2) + 1, size, "agreements");
  const patterns = waysToDisagree(size);
  const likely = patterns.filter((pattern) => size - bits(pattern) >= agreements).length;
  whole(weights["likely"], likely, likely, "likely");
  whole(weights["thresholds"], THRESHOLDS, THRESHOLDS, "thresholds");
  const grid = evenGrid(THRESHOLDS);
  const others = patterns.length - likely;
  const { inside, common } = sided(published, d, BigInt(likely), BigInt(patterns.length), 4 + size);
  return {
    ...common,
    tosses: true,
    respond: (values, own, coins) => {
      const start = coins.below(d);
      const members = Array.from({ length: size }, (_, i) => values[(start + i) % d]!);
      const places = members.map((x) => grid.round(x, own.word()));
      const thresholds = coins.allBelow(THRESHOLDS, size);
      const signs = places.reduce(
        (set, place, i) => set | (Number(place > thresholds[i]!) << i),
        0,
      );
      const near = own.word() < inside;
      const flips = patterns[near ? own.below(likely) : likely + own.below(others)]!;
      return [...octets(start, 2), ...thresholds, ...octets(signs ^ flips, 2)];
    },
  };
}

/** All ways to disagree, as bits, those with the fewest disagreements first. */
function waysToDisagree(size: number): number[] {
  const every = Array.from({ length: 1 << size }, (_, pattern) => pattern);
  return every.sort((a, b) => bits(a) - bits(b) || a - b);
}

// --- frames of other laws -----------------------------------------------------------------------

/** What a frame of other laws has, of which a report names so many. */
function framed(
  published: Published,
  sizes: number[],
  laws: readonly Law[],
  many: number,
  size: number,
) {
  const kept = laws.every((one) => one.broken || one.loss.kept);
  must(kept, "an inner law breaks its promise");
  const promised = budget(published.parameters["epsilon"]);
  const loss = lossOf(
    costliest(
      laws.map((one) => one.loss.ratio),
      many,
    ),
    promised,
  );
  const broken = laws.some((one) => one.broken);
  const common = law({ ...published, broken }, { kind: "box", sizes }, promised, loss, size);
  return { ...common, tosses: true, chances: () => together(loss) };
}

/** Read a law that asks some of the attributes, each by a law of its own. An entry has the number
 * of the attribute and its report, padded to the longest. */
function sampling(published: Published) {
  const sizes = box(published.parameters);
  const kinds = list(published.law["inner"], sizes.length, "inner").map(published.inner);
  const places = wholes(published.law["attributes"], kinds.length - 1, "attributes");
  whole(places.length, sizes.length, sizes.length, "the number of laws");
  const laws = places.map((place) => kinds[place]!);
  laws.forEach((one, i) =>
    requireTaken(one, sizes[i] ? { kind: "items", k: sizes[i] } : { kind: "number" }),
  );
  const cut = wholes(published.law["ends"], WHOLE, "ends");
  const many = whole(published.law["sample"], 1, laws.length, "sample");
  const asked = sample(laws.length, many, cut.length ? cut : null);
  const width = laws.length > 256 ? 2 : 1;
  const longest = Math.max(...laws.map((one) => one.size));
  const common = framed(published, sizes, laws, many, many * (width + longest));
  const entry = (place: number, sent: number[]) => [
    ...octets(place, width),
    ...sent,
    ...Array<number>(longest - sent.length).fill(0),
  ];
  return { sizes, laws, asked, longest, common, entry };
}

/** A few attributes of the tuple, each by a law of its own. */
export function sampled(published: Published): Law {
  const { laws, asked, common, entry } = sampling(published);
  return {
    ...common,
    respond: (values, own, coins) =>
      named(asked, coins).flatMap((place) =>
        entry(place, laws[place]!.respond([values[place]!], own, coins)),
      ),
  };
}

/** One attribute of the tuple, and one bit about it: a number's, or an item's in a random row. */
export function harmony(published: Published): Law {
  const { sizes, laws, asked, longest, common, entry } = sampling(published);
  const fit = laws.every((one, i) => one.name === (sizes[i] ? "hadamard" : "duchi"));
  must(fit && asked.many === 1, "harmony asks one attribute, by duchi or hadamard");
  return {
    ...common,
    respond: (values, own, coins) => {
      const place = named(asked, coins)[0]!;
      const one = laws[place]! as Hadamard;
      const value = values[place]!;
      const row = coins.word() % (one.rows ?? 1);
      const bit = one.rows ? one.bit(value, row, own) : one.respond([value], own, coins)[0]!;
      return entry(place, octets(2 * row + bit, longest));
    },
  };
}

/** Every attribute answered with its share of epsilon: the numbers together, then each item. */
export function hybridComposition(published: Published): Law {
  const sizes = box(published.parameters);
  const laws = list(published.law["parts"], sizes.length, "parts").map(published.inner);
  const which = (item: boolean) => sizes.flatMap((size, i) => (Boolean(size) === item ? [i] : []));
  const groups = [which(false), ...which(true).map((i) => [i])].filter((group) => group.length);
  whole(laws.length, groups.length, groups.length, "the number of parts");
  laws.forEach((one, part) => {
    const [k = 0, ...others] = groups[part]!.map((i) => sizes[i]!);
    requireTaken(one, k ? { kind: "items", k } : { kind: "box", sizes: [k, ...others] });
  });
  const size = laws.reduce((sum, one) => sum + one.size, 0);
  return {
    ...framed(published, sizes, laws, laws.length, size),
    respond: (values, own, coins) =>
      laws.flatMap((one, part) =>
        one.respond(
          groups[part]!.map((i) => values[i]!),
          own,
          coins,
        ),
      ),
  };
}
