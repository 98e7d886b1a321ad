/** Mechanisms by name. A law that is not here is refused. */

import { type Json, bad, require, table } from "../form.js";
import type { Law } from "../types.js";
import * as item from "./item.js";
import { graded, number, orNone } from "./number.js";
import type { Published } from "./shared.js";
import * as vector from "./vector.js";

/** How a mechanism is written, and made. */
interface Kind {
  readonly parameters: string;
  readonly law: string;
  readonly make: (published: Published) => Law;
  /** Whether it is built as published although it breaks its promise. */
  readonly broken?: true;
}

const TABLE = "weights values";
const PLACES = `${TABLE} places jumps`;
const RANGES = "epsilon edges semantics";
const ITEMS = "epsilon k";
const RESPONSE = "truth lie";
const BOX = "epsilon d domains";

const KINDS: Readonly<Record<string, Kind>> = {
  // numbers
  duchi: { parameters: "epsilon", law: TABLE, make: number },
  laplace: { parameters: "epsilon", law: TABLE, make: number },
  hybrid: { parameters: "epsilon", law: TABLE, make: number },
  "three-output": { parameters: "epsilon", law: TABLE, make: number },
  "square-wave": { parameters: "epsilon", law: TABLE, make: number },
  piecewise: { parameters: "epsilon t", law: TABLE, make: number },
  dithered: { parameters: "epsilon thresholds kappa", law: TABLE, make: number },
  optimal: { parameters: "epsilon prior", law: TABLE, make: number },
  dct: { parameters: "epsilon alpha", law: TABLE, make: number, broken: true },
  "graded-bit": { parameters: RANGES, law: PLACES, make: graded },
  "graded-optimal": { parameters: RANGES, law: PLACES, make: graded },
  "graded-laplace": { parameters: RANGES, law: PLACES, make: graded, broken: true },
  hiera: { parameters: `${RANGES} factor`, law: PLACES, make: graded, broken: true },
  "or-none": {
    parameters: "epsilon inner settings",
    law: `${TABLE} places=null jumps=null hush none`,
    make: aroundNumber,
  },
  // items
  grr: { parameters: ITEMS, law: RESPONSE, make: item.grr },
  sue: { parameters: ITEMS, law: "yes no", make: item.unary },
  oue: { parameters: ITEMS, law: "yes no", make: item.unary },
  subset: { parameters: ITEMS, law: "holds size level digits", make: item.subset },
  olh: { parameters: ITEMS, law: `${RESPONSE} prime cells`, make: item.olh },
  hadamard: { parameters: ITEMS, law: `${RESPONSE} rows`, make: item.hadamard },
  "hadamard-response": { parameters: ITEMS, law: `${RESPONSE} symbols`, make: item.hadamardResponse },
  "bassily-smith": {
    parameters: `${ITEMS} people beta seed`,
    law: `${RESPONSE} rows seed`,
    make: item.bassilySmith,
  },
  projective: { parameters: ITEMS, law: "inside prime dimension", make: item.projective },
  memoised: { parameters: `${ITEMS} permanent`, law: "permanent keep swap", make: item.memoised },
  // several attributes
  "duchi-multi": { parameters: BOX, law: "inside bits", make: vector.corners },
  "duchi-multi-published": { parameters: BOX, law: "inside bits", make: vector.corners, broken: true },
  block: {
    parameters: `${BOX} size kappa`,
    law: "inside size agreements likely thresholds",
    make: vector.block,
  },
  harmony: { parameters: BOX, law: "sample ends attributes inner", make: vector.harmony },
  sampled: {
    parameters: `${BOX} sample numeric categorical shares`,
    law: "sample ends attributes inner",
    make: vector.sampled,
  },
  "hybrid-composition": {
    parameters: `${BOX} people`,
    law: "parts",
    make: vector.hybridComposition,
  },
};

/** Return the law of a published mechanism, with its exact loss; refuse one that cannot be used. */
export function lawOf(document: Json): Law {
  const cell = table(document, "mechanism parameters law", "a mechanism");
  const { mechanism: name } = cell;
  const kind = typeof name === "string" && Object.hasOwn(KINDS, name) ? KINDS[name] : undefined;
  if (!kind) throw bad(`no law is called ${JSON.stringify(name)} in this program: a newer one is needed`);
  return kind.make({
    name: name as string,
    parameters: table(cell["parameters"], kind.parameters, `${name}: parameters`),
    law: table(cell["law"], kind.law, `${name}: the law`),
    broken: kind.broken ?? false,
    inner: lawOf,
  });
}

/** A number or no answer, around a law for numbers that keeps its promise. */
function aroundNumber(published: Published): Law {
  const { inner, settings } = published.parameters;
  const kind = typeof inner === "string" && Object.hasOwn(KINDS, inner) ? KINDS[inner] : undefined;
  const ranges = kind?.make === graded;
  require(kind && !kind.broken && (ranges || kind.make === number), "no answer goes around a law for numbers");
  require((published.law["places"] !== undefined) === ranges, `the law is that of ${inner}`);
  require(Array.isArray(settings), "settings are pairs of a name and a value");
  const known = kind.parameters.split(" ").slice(1); // epsilon is given
  const fit = settings.every((pair) => Array.isArray(pair) && pair.length === 2 && known.includes(String(pair[0])));
  require(fit, `settings are parameters of ${inner}`);
  return orNone(published, ranges);
}
