/** Documents by anybody: what is published is read, and anything else is refused before use. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { MOST_DOCUMENT_BYTES } from "../src/protocol.js";
import type { Json, Table } from "../src/form.js";
import { CAMPAIGNS, around, changed, collection, read, shared } from "./documents.js";
import { vectors } from "./vectors.js";

const REFUSED = { name: "MurmurationError" };

/** What is said of each rule that a document breaks. */
const RULES: Record<string, RegExp> = {
  digest: /the digest is not that of its text/,
  format: /a newer program/,
  name: /two names/,
  key: /has the keys .* and no others/,
  form: /not written as it is published|a default is left out|has the keys|has a range/,
  loss: /where .* is promised/,
  law: /add up to 2\^52|a table has|no such law is inside|level is a whole|digits is a whole|rows is a/,
  cells: /cells/,
  levels: /a level has a name|levels are chosen/,
  words: /accept_loss/,
  text: /texts of up to 500 characters/,
  attribute: /an attribute's kind|two attributes have one name/,
  range: /a number has a range/,
  labels: /2 or more labels/,
  outside: /no rule is called as outside says/,
  reading: /case is for labels|bins are|markers are|no answer is counted by itself/,
  domain: /does not take the answers of this attribute/,
  asking: /no such strategy|sample is|ends go up/,
  epsilon: /epsilon is/,
  limit: /limit is above 0/,
  repeat: /repeated question|every is|spell is|spells take no levels|levels by lot/,
  mechanism: /no law is called that/,
  checks: /a check has labels of its own|a check is of one attribute/,
  table: /table|cuts go up|labels are not cut/,
  terms: /cohort is|a time has a zone|there is no such day|upload is|origins are/,
};

test("the shared documents are refused by the rule that they break", async (context) => {
  for (const { name, rule, also = rule, why, document } of vectors("refused.json")) {
    await context.test(`${name}: ${why}`, async () => {
      const { campaign } = JSON.parse(document);
      const bytes = new TextEncoder().encode(document);
      await assert.rejects(read(bytes, campaign), { ...REFUSED, message: new RegExp(`${RULES[rule]!.source}|${RULES[also]!.source}`) });
    });
  }
});

test("outside the collection a default may be written: it changes no digest", async () => {
  const said = around(collection("sample"), { grace: 1, origins: [] });
  assert.equal((await read(said, "sample")).grace, 1);
});

test("what is published is read", async () => {
  for (const name of CAMPAIGNS) {
    const campaign = await shared(name);
    assert.equal(campaign.name, name);
    assert.ok(campaign.loss.kept && campaign.loss.epsilon <= campaign.epsilon);
  }
  const levels = await shared("levels");
  assert.deepEqual(
    levels.levels.map((level) => level.epsilon),
    [0.9999999999999999, 1.5, 3],
  );
  assert.deepEqual([levels.sample, levels.most], [2, [1.4999999999999998, 1.4999999999999998]]);
  const repeat = await shared("repeat");
  assert.deepEqual(
    [repeat.repeated, repeat.prepaysNone, repeat.most, repeat.rounds],
    [true, false, [2], 10],
  );
  const origins = around(collection("sample"), {
    origins: ["https://app.example"],
    opens: "2026-01-01T00:00:00Z",
  });
  const open = await read(origins, "sample");
  assert.deepEqual(
    [open.origins, open.opens?.getUTCFullYear(), open.closes],
    [["https://app.example"], 2026, null],
  );
});

test("a term that is not known is passed over, a key of the collection is not", async () => {
  const known = await shared("sample");
  const newer = await read(around(collection("sample"), { contact: "us@example.org" }), "sample");
  assert.deepEqual({ ...newer, cells: [] }, { ...known, cells: [] });
  const inside = collection("sample").replace('"attributes"', '"contact":"x","attributes"');
  await assert.rejects(read(around(inside), "sample"), REFUSED);
});

test("a pinned digest and the address's name must be the document's", async () => {
  const { digest } = await shared("sample");
  const bytes = around(collection("sample"));
  assert.equal((await read(bytes, "sample", digest)).digest, digest);
  await assert.rejects(read(bytes, "sample", "0".repeat(64)), { ...REFUSED, kind: "mismatch" });
  await assert.rejects(read(bytes, "other"), { ...REFUSED, kind: "mismatch" });
});

test("what is too large, no JSON or nested without end is refused unread", async () => {
  await assert.rejects(read(new Uint8Array(MOST_DOCUMENT_BYTES + 1), "sample"), /8388609 bytes/);
  const texts = ["", "null", "[]", "7", '"x"', "{}", "{", "[".repeat(1e6), `{"format":1}`];
  for (const text of texts)
    await assert.rejects(read(new TextEncoder().encode(text), "x"), REFUSED);
  await assert.rejects(read(Uint8Array.of(0xff, 0xfe), "x"), REFUSED);
  const deep = `{"wire":1,"campaign":"x","epsilon":${"[".repeat(1e5)}${"]".repeat(1e5)}}`;
  await assert.rejects(read(around(deep), "x"), REFUSED);
});

test("levels whose names are numbers keep their order", async () => {
  const text = collection("levels")
    .replace('"high"', '"10"')
    .replace('"medium"', '"9"')
    .replace('"low"', '"1"');
  const { levels } = await read(around(text), "levels");
  assert.deepEqual(
    levels.map((level) => level.name),
    ["10", "9", "1"],
  );
  const other = text.replace('"10":0.3333333333333333,"9":0.5', '"9":0.5,"10":0.3333333333333333');
  await assert.rejects(read(around(other), "levels"), REFUSED); // a level's laws are another's
});

/** Other spellings of the same campaign: each would have a digest of its own. */
const SPELLINGS: [string, string, string][] = [
  ["a blank", '"wire":1', '"wire": 1'],
  ["a whole number with a point", '"sample":2', '"sample":2.0'],
  ["a number without its point", '"epsilon":3.0', '"epsilon":3'],
  ["more digits", '"medium":0.5', '"medium":0.50'],
  ["an exponent", '"low":18.0', '"low":1.8e1'],
  ["an escape", '"age"', '"\\u0061ge"'],
  ["a default", '"strategy":"sample"', '"strategy":"sample","rounds":1'],
  ["a key twice", '"wire":1', '"wire":1,"wire":1'],
  ["another order", '"wire":1,"campaign":"levels"', '"campaign":"levels","wire":1'],
  ["a capital in an escape", '"labels":["a"', '"labels":["\\u00E9"'],
  ["a plain letter for an escape", '"labels":["a"', '"labels":["é"'],
];

for (const [what, from, to] of SPELLINGS) {
  test(`another form is refused: ${what}`, async () => {
    const text = collection("levels");
    assert.ok(text.includes(from));
    await assert.rejects(read(around(text.replace(from, to)), "levels"), {
      ...REFUSED,
      kind: "format",
    });
  });
}

test("letters beyond ASCII are written as escapes, and read", async () => {
  const { questions } = await read(
    around(collection("levels").replace('["a"', '["\\u00e9\\ud83d\\ude00\\u007f"')),
    "levels",
  );
  assert.equal(questions[1]!.labels[0], "é😀\x7f");
});

function cell(found: Table, place = 0): any {
  return (found["cells"] as Json[])[place];
}

/** Changes that a device must not take. */
const CHANGES: [string, string, (found: any) => void, RegExp][] = [
  [
    "an unknown mechanism",
    "sample",
    (found) => (cell(found).mechanism = "mine"),
    /no law is called that/,
  ],
  [
    "a mechanism of the language",
    "sample",
    (found) => (cell(found).mechanism = "toString"),
    /no law is called/,
  ],
  [
    "vectors of length 1",
    "together",
    (found) => (cell(found).mechanism = "privunit"),
    /no law is called/,
  ],
  ["an unknown key of a law", "sample", (found) => (cell(found).law.more = 1), /no others/],
  ["an unknown parameter", "sample", (found) => (cell(found).parameters.more = 1), /no others/],
  ["an unknown key of an attribute", "sample", (found) => (found.attributes[0].more = 1), /no others/],
  [
    "a law for fewer items",
    "sample",
    (found) => found.attributes[2].labels.push("more"),
    /does not take the answers/,
  ],
  [
    "a law without no answer",
    "sample",
    (found) => (found.attributes[0].missing = true),
    /an attribute|does not take/,
  ],
  ["an attribute that is never asked", "sample", (found) => insert(found, "ends", [0, 5]), /ends/],
  ["more asked than there are", "levels", (found) => (found.sample = 4), /sample/],
  ["together with levels", "levels", (found) => (found.strategy = "together"), /strategy/],
  [
    "an infinite loss",
    "sample",
    (found) =>
      (cell(found).law.weights = [
        [2 ** 52, 0],
        [0, 2 ** 52],
      ]),
    /infinite/,
  ],
  [
    "a negative weight",
    "sample",
    (found) => (cell(found).law.weights[0] = [2 ** 52 + 1, -1]),
    /whole number/,
  ],
  [
    "half a weight",
    "sample",
    (found) => (cell(found).law.weights[0][0] += 0.5),
    /written|whole number/,
  ],
  [
    "weights that wrap around",
    "sample",
    (found) => (cell(found).law.weights[0] = [2 ** 52, 2 ** 52]),
    /whole number/,
  ],
  ["two levels of one law", "levels", (found) => (cell(found, 1).level = 0), /cells/],
  ["an open law at a shy level", "levels", openAtShy, /where 0\.9+ is promised/],
  ["a limit of nothing", "repeat", (found) => (found.limit = 0), /limit/],
  [
    "rounds of answers that are not kept",
    "sample",
    (found) => insert(found, "rounds", 3),
    /more than once/,
  ],
  ["more than is promised", "split", (found) => (found.epsilon = 1.5), /where 1\.5 is promised/],
  [
    "a loss that is accepted for nothing",
    "sample",
    (found) => insert(found, "accept_loss", "x"),
    /none does/,
  ],
  [
    "two attributes of one name",
    "sample",
    (found) => (found.attributes[1].name = "age"),
    /one name/,
  ],
  ["no rounds", "repeat", (found) => (found.rounds = null), /rounds/],
  ["no markers", "sample", (found) => (found.attributes[2].markers = null), /texts/],
  ["an empty range", "sample", (found) => (found.attributes[0].low = 98), /range/],
  [
    "labels that are numbers",
    "sample",
    (found) => (found.attributes[2].labels = [1, 2, 3]),
    /texts/,
  ],
];

const ORDER =
  "wire campaign epsilon strategy sample ends levels chosen limit accept_loss rounds attributes " +
  "cells";

/** Put a key where it belongs. */
function insert(found: Table, key: string, value: Json): void {
  const all = { ...found, [key]: value };
  for (const name of Object.keys(found)) delete found[name];
  for (const name of ORDER.split(" ")) if (name in all) found[name] = all[name]!;
}

function openAtShy(found: Table): void {
  for (const place of [0, 3, 6]) {
    const { parameters, law } = cell(found, place + 2);
    Object.assign(cell(found, place), { parameters, law });
  }
}

for (const [what, name, change, why] of CHANGES) {
  test(`refused: ${what}`, async () => {
    await assert.rejects(read(changed(name, change), name), { ...REFUSED, message: why });
  });
}

test("a known leak is sent by only with its own words", async () => {
  const { document } = vectors("reports/broken-corners.json");
  const campaign = await read(new TextEncoder().encode(document), "broken-corners");
  assert.match(campaign.acceptLoss!, /^a loss of [0-9.]+ where [0-9.]+ is promised$/);
  const [law] = campaign.cells.map((one) => one.law);
  assert.equal(law!.loss.words, campaign.acceptLoss);
  assert.ok(law!.charge > law!.budget && campaign.most[0] === law!.charge);
});
