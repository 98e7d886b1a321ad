/** Mechanisms by name. A law that is not here is refused. */

import { type Json, must, table } from "../form.js";
import type { Law } from "../types.js";
import * as item from "./item.js";
import { graded, memoisedBit, number, orNone } from "./number.js";
import type { Published } from "./shared.js";
import * as vector from "./vector.js";

/** The keys of a mechanism's parameters and of its law, in their order, and how it is made. */
type Kind = readonly [parameters: string, law: string, make: (published: Published) => Law];

const TABLE = "weights values";
const PLACES = `${TABLE} places jumps`;
const RANGES = "epsilon edges semantics";
const ITEMS = "epsilon k";
const RESPONSE = "truth lie";
const BOX = "epsilon d domains";
const SAMPLE = "sample ends attributes inner";

const bit: Kind = ["epsilon", TABLE, number];
const ranges: Kind = [RANGES, PLACES, graded];
const bits: Kind = [ITEMS, "yes no", item.unary];
const corner: Kind = [BOX, "inside bits", vector.corners];

const KINDS = new Map<unknown, Kind>([
  // numbers
  ["duchi", bit],
  ["laplace", bit],
  ["hybrid", bit],
  ["three-output", bit],
  ["square-wave", bit],
  ["piecewise", ["epsilon t", TABLE, number]],
  ["dithered", ["epsilon thresholds kappa", TABLE, number]],
  ["optimal", ["epsilon prior", TABLE, number]],
  ["dct", ["epsilon alpha", TABLE, number]],
  ["memoised-bit", ["epsilon permanent", "permanent keep swap", memoisedBit]],
  ["graded-bit", ranges],
  ["graded-optimal", ranges],
  ["graded-laplace", ranges],
  ["hiera", [`${RANGES} factor`, PLACES, graded]],
  [
    "or-none",
    ["epsilon inner settings", `${TABLE} places=null jumps=null hush none`, aroundNumber],
  ],
  // items
  ["grr", [ITEMS, RESPONSE, item.grr]],
  ["sue", bits],
  ["oue", bits],
  ["subset", [ITEMS, "holds size level digits", item.subset]],
  ["olh", [ITEMS, `${RESPONSE} prime cells`, item.olh]],
  ["hadamard", [ITEMS, `${RESPONSE} rows`, item.hadamard]],
  ["hadamard-response", [ITEMS, `${RESPONSE} symbols`, item.hadamardResponse]],
  ["bassily-smith", [`${ITEMS} people beta seed`, `${RESPONSE} rows seed`, item.bassilySmith]],
  ["projective", [ITEMS, "inside prime dimension", item.projective]],
  ["memoised", [`${ITEMS} permanent`, "permanent keep swap", item.memoised]],
  // several attributes
  ["duchi-multi", corner],
  ["duchi-multi-published", corner],
  ["block", [`${BOX} size kappa`, "inside size agreements likely thresholds", vector.block]],
  ["harmony", [BOX, SAMPLE, vector.harmony]],
  ["sampled", [`${BOX} sample numeric categorical shares`, SAMPLE, vector.sampled]],
  ["hybrid-composition", [`${BOX} people`, "parts", vector.hybridComposition]],
]);
/** Built as published although they break their promise. */
const BROKEN = ["dct", "graded-laplace", "hiera", "duchi-multi-published"];

/** What a law inside another has not: laws inside it, or ranges. */
const OUTER = /inner|parts|places/;

/** Return the law of a published mechanism, with its exact loss; refuse one that cannot be used. */
export function lawOf(document: Json, inside = false): Law {
  const {
    mechanism: name,
    parameters,
    law,
  } = table(document, "mechanism parameters law", "a mechanism");
  const kind = KINDS.get(name);
  must(kind, "no law is called that here: a newer program is needed");
  must(!inside || !OUTER.test(kind[1]), "no such law is inside another");
  return kind[2]({
    name: String(name),
    parameters: table(parameters, kind[0], `${name}: parameters`),
    law: table(law, kind[1], `${name}: law`),
    broken: BROKEN.includes(String(name)),
    inner: (one) => lawOf(one, true),
  });
}

/** A number or no answer, around a law for numbers that keeps its promise. */
function aroundNumber(published: Published): Law {
  const { inner, settings } = published.parameters;
  const [parameters = "", , make] = KINDS.get(inner) ?? [];
  const known = parameters.split(" ").slice(1); // epsilon is given
  must(
    (make === graded || make === number) &&
      !BROKEN.includes(String(inner)) &&
      "places" in published.law === (make === graded) &&
      Array.isArray(settings) &&
      settings.every(
        (pair) => Array.isArray(pair) && pair.length === 2 && known.includes(String(pair[0])),
      ),
    "no answer goes around a law for numbers",
  );
  return orNone(published, make === graded);
}
