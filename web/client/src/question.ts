/** One attribute of a document, checked: what it asks, and by which rule an answer is read. */

import { keyOf } from "./answers.js";
import { type Json, type Table, require, table, whole } from "./form.js";
import type { Question } from "./types.js";

const ATTRIBUTE =
  'name kind="number" low=null high=null unit="" labels=[] outside bins=64 missing=false ' +
  'case="exact" markers=[]';
const KINDS = ["number", "category", "distribution", "graded"];
const MOST_LABELS = 1 << 15;

/** Return an attribute, or say what is wrong with it. */
export function questionOf(value: Json): Question {
  const found = table(value, ATTRIBUTE, "an attribute");
  const { name, kind = "number", unit = "", outside, missing = false, case: letters = "exact" } = found;
  require(typeof name === "string" && typeof unit === "string", "an attribute's name and unit are texts");
  require(typeof outside === "string", `${name}: outside is a text`);
  require(typeof missing === "boolean", `${name}: missing is true or false`);
  require(KINDS.includes(String(kind)), `${name}: kind is one of ${KINDS.join(", ")}`);
  const size = whole(found["bins"] ?? 64, 2, 512, `${name}: bins`);
  require(Number.isInteger(Math.log2(size)), `${name}: bins are a power of two`);
  const question = {
    ...{ name, unit, outside, missing, kind: kind as Question["kind"] },
    ...(kind === "category" ? category(found) : range(found)),
    case: letters as Question["case"],
    markers: texts(found["markers"] ?? [], `${name}: markers`),
  };
  requireRule(question);
  requireReading(question);
  return question;
}

function category({ name, labels: given = null, low, high }: Table) {
  const labels = texts(given, `${name}: labels`);
  const different = new Set(labels).size === labels.length && !labels.includes("");
  const fit = different && labels.length >= 2 && labels.length <= MOST_LABELS;
  require(fit, `${name}: a category has 2 or more labels, all different`);
  require(low === undefined && high === undefined, `${name}: a category has labels, not a range`);
  return { labels, low: NaN, high: NaN };
}

function range({ name, low, high, labels }: Table) {
  require(typeof low === "number" && typeof high === "number", `${name}: a number has a range`);
  require(low < high && Number.isFinite(high - low), `${name}: low is below high`);
  require(!Object.is(low, -0) && !Object.is(high, -0), `${name}: 0 has no sign`);
  require(labels === undefined, `${name}: a number has a range, not labels`);
  return { low, high, labels: [] };
}

function texts(value: Json, what: string): string[] {
  require(Array.isArray(value) && value.every((one) => typeof one === "string"), `${what} are texts`);
  return value as string[];
}

/** Refuse a rule for answers that do not fit which is none. With `missing` nobody is silent. */
function requireRule({ name, kind, labels, outside, missing }: Question): void {
  const left = missing ? "no answer" : "refuse";
  const rules = kind === "category" ? ["spread", left, ...labels] : ["clamp", left];
  const fit = rules.includes(outside) && !(missing && outside === "refuse");
  require(fit, `${name}: outside is one of ${rules.slice(0, 2).join(", ")}, or a label`);
  const own = missing ? ["no answer", "answered"] : [];
  require(!own.some((label) => labels.includes(label)), `${name}: no answer is counted by itself: it is no label`);
}

/** Refuse markers that are no texts for no answer. */
function requireReading(question: Question): void {
  const { name, kind, labels, markers, missing } = question;
  const letters = question.case === "exact" || (question.case === "ignore" && kind === "category");
  require(letters, `${name}: case is exact or ignore, and for a category only`);
  const keys = markers.map((marker) => keyOf(marker, question));
  require(new Set(keys).size === keys.length && !keys.includes(""), `${name}: markers are different texts`);
  require(missing || !keys.length, `${name}: markers stand for no answer: they need missing`);
  const taken = keys.length > 0 && labels.some((label) => keys.includes(keyOf(label, question)));
  require(!taken, `${name}: a marker of no answer is no label`);
}
