/** The published campaign, read by a device that trusts nobody: sizes, digest, form, shapes, and an
 * exact audit of every law, before any answer is looked at.
 */

import { admitted } from "./admission.js";
import { MurmurationError } from "./errors.js";
import { fraction, larger, next, times } from "./exponential.js";
import {
  type Json,
  type Table,
  bad,
  budget,
  list,
  must,
  passingOver,
  table,
  texts,
  whole,
  wholes,
  written,
} from "./form.js";
import { lawOf } from "./laws/index.js";
import { requireTaken } from "./laws/shared.js";
import type { Every } from "./periods.js";
import {
  CELL_KEYS,
  COLLECTION_KEYS,
  DOCUMENT_KEYS,
  FORMAT,
  LEAST_COHORT,
  MOST_ATTRIBUTES,
  MOST_CELLS,
  MOST_COMPARED,
  MOST_COMPARED_PER_PAIR,
  MOST_DOCUMENT_BYTES,
  MOST_LABELS,
  MOST_LEVELS,
  MOST_ORIGINS,
  PERIODS,
  UPLOADS,
  WIRE,
} from "./protocol.js";
import { questionOf, requireChecks } from "./question.js";
import { type Sample, sample } from "./strategy.js";
import { requireAlone, tablesOf } from "./table.js";
import type { Campaign, Cell, Domain, LevelOffer, Question, ReadOptions } from "./types.js";
import { WHOLE, digestOf } from "./words.js";

const NEWER = "its format needs a newer program";
/** RFC 3339, from the year 1 on. */
const MOMENT =
  /^(?!0000)\d{4}-\d\d-\d\dT([01]\d|2[0-3])(:[0-5]\d){2}(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/;

/** Return the campaign of a document, or say what is wrong with it. */
export async function readDocument(bytes: Uint8Array, options: ReadOptions): Promise<Campaign> {
  try {
    return await checked(bytes, options);
  } catch (problem) {
    if (problem instanceof MurmurationError) throw problem;
    throw bad((problem as Error).name); // no JSON, no UTF-8, or nested without end
  }
}

async function checked(bytes: Uint8Array, { address, digest }: ReadOptions): Promise<Campaign> {
  must(
    bytes.length <= MOST_DOCUMENT_BYTES,
    `${bytes.length} bytes are more than ${MOST_DOCUMENT_BYTES}`,
  );
  const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  const document = table(passingOver(JSON.parse(text) as Json, DOCUMENT_KEYS), DOCUMENT_KEYS, "the document", false);
  const { format, campaign: name, collection, digest: claimed } = document;
  must(format === FORMAT && typeof collection === "string", NEWER);
  const found = await digestOf(collection);
  must(found === claimed, "it was changed: the digest is not that of its text");
  if ((digest ?? found) !== found) throw another(`has the digest ${found}, not ${digest}`);
  const inside = collectionOf(collection);
  must(name === inside["campaign"], "it has two names");
  if (name !== address.replace(/\/+$/, "").split("/").pop()) throw another("has another name than the address");
  return admitted({ ...terms(document), ...questionsAndLaws(inside) });
}

export function another(what: string): MurmurationError {
  return new MurmurationError(
    "mismatch",
    `this is another campaign: it ${what}. Nothing was sent.`,
  );
}

/** Return the collection, if it is written in the one form in which it is published. */
function collectionOf(text: string): Table {
  const found = JSON.parse(text) as Table;
  must(found["wire"] === WIRE, NEWER);
  const collection = { ...table(found, COLLECTION_KEYS, "the collection") };
  if (collection["levels"]) collection["levels"] = levelPairs(text, collection["levels"]);
  must(
    written(collection) === text,
    "it is not written as it is published: that could tell devices apart",
  );
  return collection;
}

/** Return names and factors of levels in the order of the text: JavaScript puts names that are
 * numbers first. */
function levelPairs(text: string, levels: Json): Json[] {
  const part = /"levels":(\{(?:"(?:[^"\\]|\\.)*":[^,{}"]*,?)*\})/.exec(text)?.[1] ?? "";
  const names = [...part.matchAll(/("(?:[^"\\]|\\.)*"):/g)].map(
    (match) => JSON.parse(match[1]!) as string,
  );
  return names.map((name) => [name, (levels as Table)[name]!]);
}

export function terms(found: Table) {
  const { keep_reports: keepReports, upload, opens, closes, purpose, digest, origins = [] } = found;
  must(UPLOADS.includes(upload as Campaign["upload"]), `upload is ${UPLOADS.join(" or ")}`);
  must(Array.isArray(origins) && origins.length <= MOST_ORIGINS, `origins are ${MOST_ORIGINS} at most`);
  must(typeof keepReports === "boolean" && typeof purpose === "string", "keep_reports or purpose");
  return {
    ...{ digest: digest as string, purpose, keepReports, upload: upload as Campaign["upload"] },
    version: whole(found["version"], 1, WHOLE, "version"),
    people: whole(found["people"], 1, 2 ** 40 - 1, "people"),
    cohort: whole(found["cohort"], LEAST_COHORT, WHOLE, "cohort"),
    opens: moment(opens!),
    closes: moment(closes!),
    origins: texts(origins, "origins"),
    grace: whole(found["grace"] ?? 1, 0, WHOLE, "grace"),
  };
}

/** Read a time, of a day that the calendar has: JavaScript makes the 2nd of March of a 30th of
 * February. */
function moment(value: Json): Date | null {
  if (value === null) return null;
  must(typeof value === "string" && value.length < 33 && MOMENT.test(value), "a time has a zone");
  const day = value.slice(0, 10);
  must(new Date(day).toJSON()?.startsWith(day), "there is no such day");
  return new Date(value);
}

/** Return what affects a report; every law with its exact loss, for the answers that it is asked.
 */
function questionsAndLaws(found: Table) {
  const epsilon = budget(found["epsilon"]);
  const { limit = null, accept_loss: acceptLoss = null, chosen = "freely", rounds = 1 } = found;
  const questions = questionsOf(list(found["attributes"], MOST_ATTRIBUTES, "attributes"));
  const names = new Set(questions.map((question) => question.name));
  must(names.size === questions.length, "two attributes have one name");
  requireChecks(questions);
  const levels = levelsOf(found["levels"], epsilon);
  must(
    chosen === "freely" || (chosen === "by lot" && levels.length),
    "levels are chosen freely or by lot",
  );
  must(limit === null || (typeof limit === "number" && limit > 0), "limit is above 0");
  must(acceptLoss === null || typeof acceptLoss === "string", "accept_loss is a text");
  const { many, ends } = asking(found, questions, levels.length);
  const cells = cellsOf(found, questions, levels.length);
  requireAlone(found, questions, levels.length > 0 || cells.some(({ law }) => law.permanent));
  return {
    ...{ name: found["campaign"] as string, epsilon, questions, levels, limit, acceptLoss, ends },
    chosen: chosen as Campaign["chosen"],
    strategy: found["strategy"] as Campaign["strategy"],
    sample: many,
    rounds: whole(rounds, 1, WHOLE, "rounds"),
    every: everyOf(found["every"] ?? null),
    spells: spellsOf(found),
    cells,
  };
}

/** Return the questions in their order: tables are made of others. */
function questionsOf(values: readonly Json[]): Question[] {
  const isTable = (value: Json) => (value as Table | null)?.["kind"] === "table";
  const plain = values.filter((value) => !isTable(value)).map(questionOf);
  const tables = tablesOf(values.filter(isTable), plain);
  return values.map((value) => (isTable(value) ? tables.shift()! : plain.shift()!));
}

/** Return what a report is about, where a question comes back by periods. */
function everyOf(every: Json): Every | null {
  must(every === null || PERIODS.includes(every as Every), "every is day, week or month");
  return every as Every | null;
}

/** Return the first period and the length of spells, where there are any. */
function spellsOf({ every = null, first = null, spell = null, rounds = 1 }: Table) {
  if (first === null && spell === null) return null;
  must(every !== null, "spells are of periods");
  const most = whole(rounds, 1, WHOLE, "rounds");
  return { first: whole(first, 0, WHOLE, "first"), length: whole(spell, 1, most, "spell") };
}

/** Return how many groups of laws a report names, of how many. */
function asking(found: Table, questions: readonly Question[], levels: number): Sample {
  const { strategy, sample: many = 1, ends = null } = found;
  const d = questions.length;
  if (strategy === "sample") {
    return sample(
      d,
      whole(many, 1, d, "sample"),
      ends === null ? null : wholes(ends, WHOLE, "ends"),
    );
  }
  const alone = strategy === "split";
  const gathers =
    strategy === "together" && !levels && !questions.some((question) => question.missing);
  must((alone || gathers) && many === 1 && ends === null, "no such strategy");
  const groups = alone ? d : 1;
  return { groups, many: groups, ends };
}

function levelsOf(pairs: Json | undefined, epsilon: number): LevelOffer[] {
  if (pairs === undefined) return [];
  const levels = list(pairs, MOST_LEVELS, "levels") as [string, Json][];
  const names = texts(
    levels.map(([name]) => name),
    "levels",
  );
  must(new Set(names).size === names.length, "two levels have one name");
  return levels.map(([name, factor]) => {
    const fits = typeof factor === "number" && factor > 0 && factor <= 1;
    must(fits && name.trim(), "a level has a name, and a part of epsilon");
    return { name, factor, epsilon: budget(part(epsilon, factor)) };
  });
}

/** Multiply, rounded down: a level must not spend more than its part. */
function part(epsilon: number, factor: number): number {
  const found = epsilon * factor;
  const above = larger(fraction(found), times(fraction(epsilon), fraction(factor)));
  return above ? next(found, -1n) : found;
}

/** Read the laws, each where it says it belongs. Sizes are looked at before any law is. */
function cellsOf(found: Table, questions: readonly Question[], levels: number): Cell[] {
  const every = [...questions.keys()];
  const together = found["strategy"] === "together";
  const groups = together ? [every] : every.map((one) => [one]);
  const offered = [...Array(Math.max(levels, 1)).keys()];
  const places = groups.flatMap((attributes) => offered.map((level) => ({ attributes, level })));
  const labels = questions.reduce((sum, question) => sum + question.labels.length, 0);
  must(labels * offered.length <= MOST_LABELS, `there are more than ${MOST_LABELS} labels`);
  const cells = list(found["cells"], MOST_CELLS, "cells");
  const compared = cells.reduce<number>((sum, cell) => sum + comparisons(cell as Table), 0);
  must(compared <= MOST_COMPARED, "too many comparisons between ranges");
  must(cells.length === places.length, `there are ${places.length} cells, by attribute and level`);
  return cells.map((one, i) => {
    const { attributes, level, ...document } = table(one, CELL_KEYS, "a cell");
    const place = places[i]!;
    const here =
      written(attributes!) === written(place.attributes) &&
      level === (levels ? place.level : undefined);
    must(here, "cells come by attribute and level");
    const law = lawOf(document);
    requireTaken(
      law,
      domain(
        place.attributes.map((attribute) => questions[attribute]!),
        together,
      ),
    );
    return { ...place, law };
  });
}

/** How much a law with ranges compares: each two ranges, symbol by symbol. */
function comparisons({ parameters, law }: Table): number {
  const ranges = (parameters as Table)["epsilon"];
  if (!Array.isArray(ranges)) return 0;
  const { values, weights } = law as Table;
  const symbols = (values ?? (weights as Json[])[0]) as Json[];
  return ranges.length ** 2 * (MOST_COMPARED_PER_PAIR + symbols.length);
}

/** What a law must take: the answers of one question, or of all together. */
function domain(questions: readonly Question[], together: boolean): Domain {
  const [{ labels, missing }] = questions as [Question];
  if (together) return { kind: "box", sizes: questions.map((question) => question.labels.length) };
  if (labels.length) return { kind: "items", k: labels.length + Number(missing) };
  return { kind: missing ? "number or none" : "number" };
}
