/** Whole reports: from words, and from a secret on, the same as Python's. */

import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { encode } from "../src/answers.js";
import { readDocument } from "../src/document.js";
import { example, explain } from "../src/explain.js";
import { askedCells, draw, entry, spread } from "../src/report.js";
import type { Answer, Campaign, Level } from "../src/types.js";
import { type Words, hex } from "../src/words.js";
import { CAMPAIGNS, shared } from "./documents.js";
import { FOLDER, WORDS, vectors, wordsFrom } from "./vectors.js";

/** A row of bytes of one length: each entry's cell and report, with zeros up to the longest. */
function row(campaign: Campaign, entries: readonly (readonly number[])[]): string {
  const sizes = campaign.cells.map((cell) => cell.law.size);
  const per = Math.max(campaign.levels.length, 1);
  const width = (i: number) =>
    Math.max(...(campaign.strategy === "sample" ? sizes : sizes.slice(i * per, (i + 1) * per)));
  const octets = entries.flatMap((one, i) => [
    ...one,
    ...Array<number>(width(i) + 1 - one.length).fill(0),
  ]);
  return hex(Uint8Array.from(octets));
}

function chosen(campaign: Campaign, levels: string[][] | null): Level | undefined {
  if (!levels) return undefined;
  return Object.fromEntries(campaign.questions.map(({ name }, i) => [name, levels[0]![i]!]));
}

/** Draw a report whose words all come from one stream, one purpose after the other. */
async function fromWords(
  campaign: Campaign,
  answers: Answer[],
  level: Level | undefined,
  words: Words,
) {
  const source = () => () => Promise.resolve(words);
  const own = await spread(campaign, answers, source);
  const entries = [];
  for (const cell of await askedCells(campaign, level, source())) {
    entries.push(await entry(campaign, cell, own, source, ""));
  }
  return entries;
}

for (const name of CAMPAIGNS) {
  test(`${name}: the same words make the same report`, async () => {
    const campaign = await shared(name);
    const { people, digest } = vectors(`campaigns/${name}.json`);
    assert.equal(campaign.digest, digest);
    for (const person of people) {
      const raw = Object.fromEntries(
        Object.entries(person.answers).map(([key, [one]]: any) => [key, one]),
      );
      const level = chosen(campaign, person.levels);
      const words = wordsFrom(WORDS, person.word);
      const entries = await fromWords(campaign, encode(campaign, raw), level, words);
      assert.deepEqual(entries, person.entries);
      assert.equal(row(campaign, entries), person.row);
    }
  });
}

for (const file of readdirSync(join(FOLDER, "reports")).filter((name) => name.endsWith(".json"))) {
  test(`reports/${file}: words and secrets make the reports of Python`, async () => {
    const { document, address, origin, people } = vectors(`reports/${file}`);
    const campaign = await readDocument(new TextEncoder().encode(document), { address });
    for (const person of people) {
      const level = person.level ?? undefined;
      const answers = encode(campaign, person.answers);
      const words = wordsFrom(WORDS, person.word);
      assert.deepEqual(await fromWords(campaign, answers, level, words), person.drawn);
      const secret = Uint8Array.from(Buffer.from(person.secret, "hex"));
      const options = { secret, origin, level, round: person.round };
      const first = person.begun && (await draw(campaign, encode(campaign, person.begun), options));
      const kept = async (name: string) =>
        first?.memos.find((memo: { name: string }) => memo.name === name)?.answer;
      const made = await draw(campaign, answers, { ...options, kept });
      assert.equal(new TextDecoder().decode(made.bytes), person.report);
      assert.equal(made.report.id, person.id);
    }
  });
}

for (const file of ["reports", "missing"]) {
  test(`keyed/${file}: the same secret makes the same report and id`, async () => {
    const known = new Map<string, Campaign>();
    for (const vector of vectors(`keyed/${file}.json`)) {
      const campaign = known.get(vector.campaign) ?? (await shared(vector.campaign));
      known.set(vector.campaign, campaign);
      assert.equal(campaign.digest, vector.digest);
      const { report } = await draw(campaign, encode(campaign, vector.answers), {
        secret: Uint8Array.from(Buffer.from(vector.secret, "hex")),
        origin: vector.origin,
        round: vector.round,
        level: chosen(campaign, vector.levels),
      });
      assert.equal(report.id, vector.id);
      assert.equal(row(campaign, report.entries), vector.row);
    }
  });
}

test("what is no encoded answer is refused", async () => {
  const options = { secret: new Uint8Array(32), origin: "https://collector.example:443" };
  const campaign = await shared("sample");
  const fine = [0, 0, 0];
  await draw(campaign, fine, options);
  const wrong = [
    [1.5, 0, 0],
    [NaN, 0, 0],
    [0, 0, 3],
    [0, 0, 0.5],
    [0, 0, -1],
    [0, 0],
    [0, NaN, 0],
  ];
  for (const answers of wrong) {
    await assert.rejects(draw(campaign, answers, options), {
      kind: "input",
      message: /no encoded answer/,
    });
  }
  await assert.rejects(
    draw(campaign, fine, { ...options, level: "low" }),
    /is offered/,
  );
  const levels = await shared("levels");
  await assert.rejects(draw(levels, fine, options), /is offered/);
});

test("an example is drawn by other words, and probabilities add up", async () => {
  const campaign = await shared("sample");
  const answers = encode(campaign, { age: 30, sleep: 7, phone: "ios" });
  const drawn = new Set<string>();
  for (let i = 0; i < 200; i++)
    drawn.add(JSON.stringify((await example(campaign, answers)).entries));
  assert.ok(drawn.size > 10);
  for (const { asked, chances } of explain(campaign, answers)) {
    assert.equal(asked, 1 / 3);
    assert.ok(chances.kind === "symbols");
    const sum = chances.probabilities.reduce((a, b) => a + b, 0);
    assert.ok(Math.abs(sum - 1) < 1e-12);
  }
});
