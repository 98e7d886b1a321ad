/** Mechanisms by name. A law that is not here is refused. */

import { type Json, must, table } from "../form.js";
import { BROKEN, LAWS } from "../protocol.js";
import type { Law } from "../types.js";
import * as item from "./item.js";
import { gradedItems } from "./gradeditems.js";
import { graded, memoisedBit, number, orNone } from "./number.js";
import type { Published } from "./shared.js";
import * as vector from "./vector.js";

type Make = (published: Published) => Law;

/** How the laws of each mechanism are made. */
const MAKES: Readonly<Record<keyof typeof LAWS, Make>> = {
  // numbers
  duchi: number,
  laplace: number,
  hybrid: number,
  "three-output": number,
  "square-wave": number,
  piecewise: number,
  dithered: number,
  optimal: number,
  "optimal-sampled": number,
  dct: number,
  "memoised-bit": memoisedBit,
  "graded-bit": graded,
  "graded-optimal": graded,
  "graded-laplace": graded,
  hiera: graded,
  "or-none": aroundNumber,
  // items
  grr: item.grr,
  sue: item.unary,
  oue: item.unary,
  subset: item.subset,
  olh: item.olh,
  hadamard: item.hadamard,
  "hadamard-response": item.hadamardResponse,
  "bassily-smith": item.bassilySmith,
  projective: item.projective,
  memoised: item.memoised,
  "graded-items": gradedItems,
  // several attributes
  "duchi-multi": vector.corners,
  "duchi-multi-published": vector.corners,
  block: vector.block,
  harmony: vector.harmony,
  sampled: vector.sampled,
  "hybrid-composition": vector.hybridComposition,
};

/** Return the keys of a mechanism's parameters and of its law, and how it is made. */
function kindOf(name: unknown): readonly [parameters: string, law: string, make: Make] | undefined {
  if (typeof name !== "string" || !Object.hasOwn(LAWS, name)) return undefined;
  const known = name as keyof typeof LAWS;
  return [...LAWS[known], MAKES[known]];
}

/** What a law inside another has not: laws inside it, or ranges. */
const OUTER = /inner|parts|places/;

/** Return the law of a published mechanism, with its exact loss; refuse one that cannot be used. */
export function lawOf(document: Json, inside = false): Law {
  const {
    mechanism: name,
    parameters,
    law,
  } = table(document, "mechanism parameters law", "a mechanism");
  const kind = kindOf(name);
  must(kind, "no law is called that here: a newer program is needed");
  must(!inside || !OUTER.test(kind[1]), "no such law is inside another");
  return kind[2]({
    name: String(name),
    parameters: table(parameters, kind[0], `${name}: parameters`),
    law: table(law, kind[1], `${name}: law`),
    broken: breaks(name),
    inner: (one) => lawOf(one, true),
  });
}

/** A number or no answer, around a law for numbers that keeps its promise. */
function aroundNumber(published: Published): Law {
  const { inner, settings } = published.parameters;
  const [parameters = "", , make] = kindOf(inner) ?? [];
  const known = parameters.split(" ").slice(1); // epsilon is given
  must(
    (make === graded || make === number) &&
      !breaks(inner) &&
      "places" in published.law === (make === graded) &&
      Array.isArray(settings) &&
      settings.every(
        (pair) => Array.isArray(pair) && pair.length === 2 && known.includes(String(pair[0])),
      ),
    "no answer goes around a law for numbers",
  );
  return orNone(published, make === graded);
}

/** Whether a mechanism is built as published although it breaks its promise. */
function breaks(name: unknown): boolean {
  return (BROKEN as readonly unknown[]).includes(name);
}
