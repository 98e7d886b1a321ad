/** Raw values are the answers that the shared vectors say. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { encode, folded, read } from "../src/answers.js";
import { type Campaign, type Question, SPREAD } from "../src/types.js";
import { vectors } from "./vectors.js";

const USUAL = {
  ...{ kind: "number", low: NaN, high: NaN, unit: "", labels: [], markers: [] },
  ...{ outside: "clamp", missing: true, case: "exact", checks: "", of: [], cuts: [] },
};
const { attributes, vectors: rows } = vectors("answers/vectors.json");

function question(name: string, table: object): Question {
  return { ...USUAL, name, ...table } as Question;
}

function asking(...questions: Question[]): Campaign {
  return { questions } as unknown as Campaign;
}

test("a raw value is the answer that it always was", () => {
  const values = vectors("answers/values.json");
  const tables = { ...attributes, ...values.attributes };
  for (const [name, raw, answer] of [...rows, ...values.vectors]) {
    const asked = question(name, tables[name]);
    const found = read(asked, raw);
    const encoded = typeof found === "number" ? encode(asking(asked), { [name]: raw })[0] : found;
    assert.deepEqual(encoded, answer, JSON.stringify([name, raw]));
  }
});

test("what does not fit counts by the rule, also where a label has the rule's name", () => {
  for (const [table, raw, answer] of vectors("answers/values.json").rules) {
    const asked = { ...question("q", table), missing: false, ...table };
    const [found] = encode(asking(asked), { q: raw });
    const shown = found === SPREAD ? "by chance" : Number.isNaN(found) ? "none" : found;
    assert.equal(shown, answer, JSON.stringify(table));
  }
});

test("letters are folded by the rule's own list", () => {
  const added = new Map<number, number>();
  for (const [first, last, step, more] of vectors("answers/vectors.json").folds) {
    for (let point = parseInt(first, 16); point <= parseInt(last, 16); point += step)
      added.set(point, more);
  }
  for (let point = 0; point < 0x10000; point++) {
    const small = String.fromCharCode(point + (added.get(point) ?? 0));
    assert.equal(folded(String.fromCharCode(point)), small, point.toString(16));
  }
});

const AGE = question("age", { low: 18, high: 98 });
const PHONE = question("phone", { kind: "category", labels: ["android", "ios"] });

test("what is outside counts by the campaign's rule", () => {
  const cases: [object, string | number | null, number][] = [
    [{ ...AGE, missing: false }, 120, 1],
    [{ ...AGE, missing: false, outside: "refuse" }, 120, 1], // nobody is silent
    [{ ...AGE, outside: "no answer" }, 120, NaN],
    [AGE, null, NaN],
    [AGE, "old", NaN],
    [{ ...PHONE, outside: "spread" }, "fax", SPREAD],
    [{ ...PHONE, missing: false, outside: "refuse" }, "fax", SPREAD],
    [{ ...PHONE, outside: "ios" }, "fax", 1],
    [{ ...PHONE, outside: "no answer" }, "fax", 2],
    [{ ...PHONE, outside: "spread" }, null, 2],
  ];
  for (const [table, raw, answer] of cases) {
    assert.deepEqual(encode(asking(question("q", { ...table, name: "q" })), { q: raw }), [answer]);
  }
});

test("an answer that is missing or not asked for is refused, and never repeated", () => {
  const campaign = asking({ ...AGE, missing: false }, PHONE);
  assert.throws(() => encode(campaign, { phone: "ios" }), {
    kind: "input",
    message: /^question 1 has no answer/,
  });
  assert.throws(() => encode(campaign, { age: 3, name: "Ada" }), /the campaign has no attribute name/);
  const young = asking({ ...PHONE, missing: false, markers: [] });
  assert.throws(
    () => encode(young, { phone: " " }),
    (problem: Error) =>
      problem.message ===
      "question 1 has no answer that counts, and silence can be seen. Nothing was sent.",
  );
  for (const [asked, raw] of [
    [AGE, 120],
    [PHONE, "fax"],
  ] as const) {
    const strict = asking({ ...asked, missing: false, outside: "refuse" });
    const message = `question 1 has an answer that does not fit. Nothing was sent.`;
    assert.throws(() => encode(strict, { [asked.name]: raw }, true), { kind: "input", message });
  }
  assert.deepEqual(encode(asking(AGE, PHONE), {}), [NaN, 2]);
});
