/** One attribute of a document, checked: what it asks, and by which rule an answer is read. */

import { keyOf } from "./answers.js";
import { type Json, type Table, must, table, texts } from "./form.js";
import { ATTRIBUTE_KEYS, MOST_ATTRIBUTE_LABELS } from "./protocol.js";
import type { Question } from "./types.js";


/** No labels where answers may be missing. */
const RESERVED = ["no answer", "answered"];
/** Of an attribute that says whether the answer to another one fitted. */
const FIT_LABELS = ["fitted", "did not fit"];
const BINS = [2, 4, 8, 16, 32, 64, 128, 256, 512];

/** Return an attribute, or say what is wrong with it. */
export function questionOf(value: Json): Question {
  const found = table(value, ATTRIBUTE_KEYS, "an attribute");
  const { name, kind = "number", unit = "", outside, missing = false } = found;
  const { case: letters = "exact", markers = [], bins = 64, checks = "" } = found;
  must(found["of"] === undefined && found["cuts"] === undefined, "of and cuts are for tables");
  texts([name!, unit, outside!, checks], "name, unit, outside and checks");
  const known =
    /^(number|category|distribution|graded)$/.test(String(kind)) && typeof missing === "boolean";
  must(known && (letters === "exact" || letters === "ignore"), "an attribute's kind, missing or case");
  const question = {
    ...(kind === "category" ? category(found) : range(found)),
    ...{ name, unit, outside, missing, kind, case: letters, checks, of: [], cuts: [] },
    markers: texts(markers, "markers"),
  } as Question;
  requireRule(question);
  requireReading(question, bins);
  requireCheck(question);
  return question;
}

/** Refuse a check whose answers could be anything but those that a device makes by itself. */
function requireCheck({ checks, labels, outside, case: letters, markers }: Question): void {
  const plain = outside === "spread" && letters === "exact" && !markers.length;
  const own = labels.length === FIT_LABELS.length && labels.every((one, i) => one === FIT_LABELS[i]);
  must(!checks || (own && plain), "a check has labels of its own");
}

/** Refuse a check of an attribute that there is not, a second one, and one that may be missing
 * otherwise. */
export function requireChecks(questions: readonly Question[]): void {
  const open = new Map(questions.filter(({ checks }) => !checks).map((one) => [one.name, one.missing]));
  for (const { checks, missing } of questions.filter((one) => one.checks)) {
    must(open.get(checks) === missing, "a check is of one attribute, once, and may be missing alike");
    open.delete(checks);
  }
}

function category({ labels: given = [], low, high }: Table) {
  const labels = texts(given, "labels");
  const different = new Set(labels).size === labels.length && !labels.includes("");
  must(
    different && labels.length >= 2 && labels.length <= MOST_ATTRIBUTE_LABELS && (low ?? high) === undefined,
    "a category has 2 or more labels, all different",
  );
  return { labels, low: NaN, high: NaN };
}

function range({ low, high, labels }: Table) {
  const numbers = typeof low === "number" && typeof high === "number" && low < high;
  const signed = [low, high].some((end) => Object.is(end, -0)); // 0 has one form
  const fits = numbers && Number.isFinite(high - low) && !signed && !labels;
  must(fits, "a number has a range, low below high");
  return { low, high, labels: [] };
}

/** Refuse an unknown rule for answers that do not fit. With `missing` every device reports. */
function requireRule({ kind, labels, outside, missing }: Question): void {
  const rules = kind === "category" ? ["spread", ...labels] : ["clamp"];
  const known = rules.includes(outside) || outside === (missing ? "no answer" : "refuse");
  must(known, "no rule is called as outside says");
}

/** Refuse markers that could be taken for an answer, and what other devices would not read. */
function requireReading(question: Question, bins: Json): void {
  const { kind, labels, missing, markers, case: letters } = question;
  const marks = markers.map((marker) => keyOf(marker, question));
  const keys = new Set(labels.map((label) => keyOf(label, question)));
  const apart = new Set(marks).size === marks.length && !marks.some((mark) => !mark || keys.has(mark));
  must(apart && (missing || !marks.length), "markers are of no answer: no labels, and all different");
  must(!missing || !RESERVED.some((name) => labels.includes(name)), "no answer is counted by itself");
  must(letters === "exact" || kind === "category", "case is for labels");
  must(BINS.includes(Number(bins)), "bins are a power of two");
}
