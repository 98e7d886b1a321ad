/** One attribute of a document, checked: what it asks, and by which rule an answer is read. */

import { keyOf } from "./answers.js";
import { type Json, type Table, require, table, texts, whole } from "./form.js";
import type { Question } from "./types.js";

const ATTRIBUTE =
  'name kind="number" low=null high=null unit="" labels=[] outside bins=64 missing=false ' +
  'case="exact" markers=[]';
const MOST_LABELS = 1 << 15;

/** Return an attribute, or say what is wrong with it. */
export function questionOf(value: Json): Question {
  const found = table(value, ATTRIBUTE, "an attribute");
  const { name, kind = "number", unit = "", outside, missing = false, bins = 64 } = found;
  const plain = [name, unit, outside].every((one) => typeof one === "string");
  require(plain && typeof missing === "boolean", "name, unit and outside are texts, missing is true or false");
  require(/^(number|category|distribution|graded)$/.test(String(kind)), `${name}: kind ${kind}`);
  require(Number.isInteger(Math.log2(whole(bins, 2, 512, "bins"))), "bins are a power of two");
  const question = {
    ...(kind === "category" ? category(found) : range(found)),
    ...{ name, unit, outside, missing, kind },
    case: found["case"] ?? "exact",
    markers: texts(found["markers"] ?? [], "markers"),
  } as Question;
  requireRule(question);
  requireMarkers(question);
  return question;
}

function category({ name, labels: given = [], low, high }: Table) {
  const labels = texts(given, "labels");
  const different = new Set(labels).size === labels.length && !labels.includes("");
  require(
    different && labels.length >= 2 && labels.length <= MOST_LABELS && (low ?? high) === undefined,
    `${name}: a category has 2 or more labels, all different`,
  );
  return { labels, low: NaN, high: NaN };
}

function range({ name, low, high, labels }: Table) {
  const numbers = typeof low === "number" && typeof high === "number" && low < high;
  const signed = [low, high].some((end) => Object.is(end, -0)); // 0 has one form
  const fits = numbers && Number.isFinite(high - low) && !signed && !labels;
  require(fits, `${name}: a number has a range, low below high`);
  return { low, high, labels: [] };
}

/** Refuse a rule for answers that do not fit which is none. With `missing` nobody is silent, and no
 * answer is counted by itself. */
function requireRule({ name, kind, labels, outside, missing }: Question): void {
  const rules = kind === "category" ? ["spread", ...labels] : ["clamp"];
  const silent = missing ? "no answer" : "refuse";
  const known = rules.includes(outside) || outside === silent;
  require(known && !(missing && outside === "refuse"), `${name}: no rule is called ${outside}`);
  const taken = labels.some((label) => label === "no answer" || label === "answered");
  require(!missing || !taken, `${name}: no answer is no label`);
}

/** Refuse markers that are no texts for no answer. */
function requireMarkers(question: Question): void {
  const { name, kind, labels, markers, missing, case: letters } = question;
  require(letters === "exact" || (letters === "ignore" && kind === "category"), `${name}: case ${letters}`);
  const keys = new Set(markers.map((marker) => keyOf(marker, question)));
  const taken = keys.size && (!missing || labels.some((label) => keys.has(keyOf(label, question))));
  require(!taken && keys.size === markers.length && !keys.has(""), `${name}: markers stand for no answer`);
}
