/** The published campaign, read by a device that trusts nobody: sizes, digest, form, shapes, and an
 * exact audit of every law, before any answer is looked at.
 */

import { admitted } from "./admission.js";
import { MurmurationError } from "./errors.js";
import { fraction, larger, next, times } from "./exponential.js";
import { type Json, type Table, bad, budget, require, table, whole, wholes, written } from "./form.js";
import { lawOf } from "./laws/index.js";
import { questionOf } from "./question.js";
import { type Sample, sample } from "./strategy.js";
import type { Campaign, Cell, Law, LevelOffer, Question, ReadOptions } from "./types.js";
import { WHOLE, digestOf } from "./words.js";

/** Of a document, of its laws, and of labels over all laws: a device looks at no more. */
export const MOST_BYTES = 8 << 20;
const MOST_CELLS = 2048;
const MOST_LABELS = 1 << 18;
const MOST_ATTRIBUTES = 1000;
const MOST_LEVELS = 256;
const LEAST_COHORT = 100;

const DOCUMENT =
  "format campaign version digest purpose people opens closes cohort keep_reports upload collection";
const COLLECTION =
  'wire campaign epsilon strategy sample=1 ends=null levels=null chosen="freely" limit=null ' +
  "accept_loss=null rounds=1 attributes cells";
const CELL = "attributes level=null mechanism parameters law";
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/;

/** Return the campaign of a document, or say what is wrong with it. */
export async function readDocument(bytes: Uint8Array, options: ReadOptions): Promise<Campaign> {
  try {
    return await checked(bytes, options);
  } catch (problem) {
    if (problem instanceof MurmurationError) throw problem;
    throw bad(`it cannot be read (${(problem as Error).name})`);
  }
}

async function checked(bytes: Uint8Array, { address, digest }: ReadOptions): Promise<Campaign> {
  require(bytes.length <= MOST_BYTES, `it has ${bytes.length} bytes, and devices read ${MOST_BYTES}`);
  const document = outside(parsed(new TextDecoder("utf-8", { fatal: true }).decode(bytes)));
  const text = document["collection"] as string;
  const found = await digestOf(text);
  require(found === document["digest"], "the digest is not that of its text: it was changed");
  if (digest !== undefined && digest !== found) {
    throw new MurmurationError(
      "mismatch",
      `the campaign has the digest ${found.slice(0, 16)}..., and ${digest.slice(0, 16)}... was ` +
        "expected: this is another campaign. Nothing was sent.",
    );
  }
  const collection = inside(text);
  const name = document["campaign"] as string;
  require(name === collection["campaign"], "it has two names");
  if (name !== address.replace(/\/+$/, "").split("/").pop()) {
    throw new MurmurationError("mismatch", `the address is that of another campaign than ${name}`);
  }
  return admitted({ ...terms(document), ...questionsAndLaws(collection) });
}

function parsed(text: string): Json {
  return JSON.parse(text) as Json;
}

/** Return the document's own keys, of the right types. What is new there changes no report. */
function outside(value: Json): Table {
  require(typeof value === "object" && value && !Array.isArray(value), "it is no document");
  const { origins, ...rest } = value;
  const order = DOCUMENT.split(" ").filter((key) => Object.hasOwn(rest, key));
  const sorted = Object.fromEntries(order.map((key) => [key, rest[key]!]));
  const known = Object.keys(rest).length === order.length ? sorted : rest;
  const document = table(known, DOCUMENT, "the document");
  require(document["format"] === 1, `it is in format ${document["format"]}: a newer program is needed`);
  const texts = ["campaign", "digest", "purpose", "upload", "collection"];
  require(texts.every((key) => typeof document[key] === "string"), `${texts.join(", ")} are texts`);
  return origins === undefined ? document : { ...document, origins };
}

/** Return the collection, if it is written in the one form in which it is published. */
function inside(text: string): Table {
  const found = parsed(text);
  const { wire } = found as Table;
  require(wire === 1, `its reports are in format ${String(wire)}: a newer program is needed`);
  const collection = table(found, COLLECTION, "the collection");
  const ordered = { ...collection };
  if (collection["levels"]) ordered["levels"] = levelPairs(text, collection["levels"]);
  require(
    written(ordered) === text,
    "it is not written as it is published: another spelling of the same words has another digest, " +
      "which could tell devices apart",
  );
  return ordered;
}

/** Return names and factors of levels in the order of the text: JavaScript puts names that are
 * numbers first. */
function levelPairs(text: string, levels: Json): Json[] {
  const part = /"levels":(\{(?:"(?:[^"\\]|\\.)*":[^,{}"]*,?)*\})/.exec(text)?.[1] ?? "";
  const names = [...part.matchAll(/("(?:[^"\\]|\\.)*"):/g)].map((match) => parsed(match[1]!) as string);
  return names.map((name) => [name, (levels as Table)[name]!]);
}

function terms(document: Table) {
  const { upload, origins = [], keep_reports: keepReports } = document;
  require(upload === "open" || upload === "token", 'uploads are "open" or by "token"');
  require(typeof keepReports === "boolean", "keep_reports is true or false");
  const fit = Array.isArray(origins) && origins.every((origin) => typeof origin === "string");
  require(fit, "origins are texts");
  return {
    digest: document["digest"] as string,
    version: whole(document["version"], 1, 2 ** 53, "the version"),
    purpose: document["purpose"] as string,
    people: whole(document["people"], 1, 2 ** 40 - 1, "people"),
    opens: moment(document["opens"]!),
    closes: moment(document["closes"]!),
    cohort: whole(document["cohort"], LEAST_COHORT, 2 ** 53, "the cohort"),
    keepReports,
    upload: upload as "open" | "token",
    origins: origins as string[],
  };
}

function moment(value: Json): Date | null {
  if (value === null) return null;
  require(typeof value === "string" && TIME.test(value), "a campaign's times have a zone");
  const date = new Date(value);
  require(!Number.isNaN(date.getTime()), "a campaign's times have a zone");
  return date;
}

/** Return what affects a report; every law with its exact loss, for the answers that it is asked. */
function questionsAndLaws(found: Table) {
  const epsilon = budget(found["epsilon"]);
  const { attributes, limit = null, accept_loss: acceptLoss = null, chosen = "freely" } = found;
  require(Array.isArray(attributes) && attributes.length, "there are attributes");
  require(attributes.length <= MOST_ATTRIBUTES, `there are at most ${MOST_ATTRIBUTES} attributes`);
  const questions = attributes.map(questionOf);
  const names = new Set(questions.map((question) => question.name));
  require(names.size === questions.length, "two attributes have one name");
  const levels = levelsOf(found["levels"] ?? null, epsilon);
  require(chosen === "freely" || (chosen === "by lot" && levels.length), "levels are chosen freely or by lot");
  require(limit === null || (typeof limit === "number" && limit > 0), "the limit is above 0");
  require(acceptLoss === null || typeof acceptLoss === "string", "accept_loss is a text");
  const asked = asking(found, questions, levels.length);
  const cells = cellsOf(found, questions, levels.length);
  return {
    ...{ name: found["campaign"] as string, epsilon, questions, levels, limit, acceptLoss, cells },
    chosen: chosen as Campaign["chosen"],
    strategy: found["strategy"] as Campaign["strategy"],
    ...{ sample: asked.many, ends: asked.ends },
    rounds: whole(found["rounds"] ?? 1, 1, 2 ** 53, "rounds"),
  };
}

/** Return how many groups of laws a report names, of how many. */
function asking(found: Table, questions: readonly Question[], levels: number): Sample {
  const { strategy, sample: many = 1, ends = null } = found;
  const d = questions.length;
  if (strategy === "sample") {
    return sample(d, whole(many, 1, d, "sample"), ends === null ? null : wholes(ends, WHOLE, "an end"));
  }
  require(strategy === "split" || strategy === "together", "a strategy is sample, split or together");
  require(many === 1 && ends === null, "only the strategy sample has a sample");
  if (strategy === "split") return { groups: d, many: d, ends: null };
  require(!levels, "levels need a law for each attribute: sample or split");
  const missing = questions.some((question) => question.missing);
  require(!missing, "missing answers need a law for each attribute: sample or split");
  return { groups: 1, many: 1, ends: null };
}

function levelsOf(pairs: Json, epsilon: number): LevelOffer[] {
  if (pairs === null) return [];
  const levels = (pairs as [string, Json][]).map(([name, factor]) => {
    require(name.trim(), "a level has a name");
    require(typeof factor === "number" && factor > 0 && factor <= 1, "a level is a part of epsilon");
    return { name, factor, epsilon: part(epsilon, factor) };
  });
  require(levels.length >= 1 && levels.length <= MOST_LEVELS, `there are 1 to ${MOST_LEVELS} levels`);
  return levels;
}

/** Multiply, rounded down: a level must not spend more than its part. */
function part(epsilon: number, factor: number): number {
  const found = epsilon * factor;
  const above = larger(fraction(found), times(fraction(epsilon), fraction(factor)));
  return above ? next(found, -1n) : found;
}

/** Read the laws, each where it says it belongs. Sizes are looked at before any law is. */
function cellsOf(found: Table, questions: readonly Question[], levels: number): Cell[] {
  const every = questions.map((_, attribute) => attribute);
  const groups = found["strategy"] === "together" ? [every] : every.map((one) => [one]);
  const offered = Array.from({ length: Math.max(levels, 1) }, (_, level) => level);
  const places = groups.flatMap((attributes) => offered.map((level) => ({ attributes, level })));
  const { cells } = found;
  const labels = places.flatMap(({ attributes }) => attributes.map((one) => questions[one]!.labels.length));
  require(places.length <= MOST_CELLS, `it has more than ${MOST_CELLS} laws`);
  require(labels.reduce((a, b) => a + b) <= MOST_LABELS, `it has more than ${MOST_LABELS} labels`);
  const fit = Array.isArray(cells) && cells.length === places.length;
  require(fit, `this campaign has ${places.length} cells, by attribute and level`);
  return cells.map((one, i) => {
    const { attributes, level, ...document } = table(one, CELL, "a cell");
    const { attributes: own, level: at } = places[i]!;
    const here = written(attributes!) === written(own) && level === (levels ? at : undefined);
    require(here, "cells come by attribute and level");
    const law = lawOf(document);
    const asked = own.map((place) => questions[place]!);
    const right = found["strategy"] === "together" ? takesAll(law, asked) : takes(law, asked[0]!);
    require(right, `${law.name} is not for the answers that it is asked`);
    return { attributes: own, level: at, law };
  });
}

/** Whether a law is for all answers of a question. A device would refuse some of them only, and its
 * silence tell which. */
function takes({ takes: domain }: Law, { kind, labels, missing }: Question): boolean {
  if (kind === "category") return domain.kind === "items" && domain.k === labels.length + Number(missing);
  return domain.kind === (missing ? "number or none" : "number");
}

function takesAll({ takes: domain }: Law, questions: readonly Question[]): boolean {
  const sizes = questions.map((question) => question.labels.length);
  return domain.kind === "box" && String(domain.sizes) === String(sizes);
}
