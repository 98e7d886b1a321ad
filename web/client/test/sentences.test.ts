/** What people are told is what the shared vectors say, as Python says it, too. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { boundOf, lossAt } from "../src/bounds.js";
import { exact, approximate, sum } from "../src/cost.js";
import * as sentences from "../src/sentences.js";
import { Speaker } from "../src/texts.js";
import { Voice } from "../src/voice.js";
import { read } from "./documents.js";
import { vectors } from "./vectors.js";

const teller = new Voice(sentences.SENTENCES, "en");
const { sentences: said, campaigns } = vectors("sentences.json");
type Sentence = (...facts: unknown[]) => string;

test("a sentence says the facts in the same words as in Python", () => {
  for (const { name, facts, text } of said) {
    const sentence = sentences[name as "odds"] as Sentence;
    const given = facts.map((fact: unknown) => (fact === "inf" ? Infinity : fact));
    assert.equal(sentence(teller, ...given), text);
    assert.equal(sentence(new Speaker({}), ...given), text); // as the element says it
  }
});

for (const [name, told] of Object.entries(campaigns as Record<string, Record<string, unknown>>)) {
  test(`people are told the same about the campaign ${name}`, async () => {
    const { document } = vectors(`reports/${name}.json`);
    const campaign = await read(new TextEncoder().encode(document), name);
    const { loss, epsilon, acceptLoss, levels, prepaysNone, cells } = campaign;
    const bound = boundOf(campaign);
    const reserved = prepaysNone ? cells.map(({ law }) => exact(law.charge)) : [];
    const found = {
      odds: sentences.odds(teller, loss.epsilon),
      sure: sentences.sure(teller, loss.epsilon),
      reveals: sentences.reveals(teller, loss.epsilon, epsilon, loss.kept ? null : acceptLoss),
      allReports: bound && sentences.allReports(teller, bound.loss, bound.hidden),
      levels: levels.map((one) => sentences.levelOffer(teller, one.name, lossAt(campaign, one.name))),
      promise: sentences.promise(teller, loss.epsilon),
      reserve: reserved.length ? sentences.reserve(teller, approximate(sum(reserved))) : null,
    };
    assert.deepEqual(found, told);
    assert.ok(levels.length || lossAt(campaign) <= loss.epsilon);
  });
}

test("figures are said in one way", () => {
  const reader = new Voice(sentences.FIGURES, "en");
  assert.equal(
    sentences.interval(reader, 0.95, "3.1", "3.4"),
    "95% interval, one look: 3.1 to 3.4",
  );
  assert.equal(sentences.interval(reader, 0.995, "1", "2"), "99.5% interval, one look: 1 to 2");
  assert.equal(sentences.intervalAlways(reader, "3", "4"), "at all looks: 3 to 4");
  assert.match(sentences.intervals(reader, 0.9)[1]!, /^Shaded band: the 90% confidence sequence/);
  assert.deepEqual(sentences.forecast(reader, 0.95, null, "0.3"), ["", "planned for at most ±0.3"]);
  const [half, hint] = sentences.forecast(reader, 0.95, "0.2", "0.3");
  assert.equal(half, "±0.2");
  assert.match(hint, /^half of the 95% interval, .*; planned for at most ±0.3$/);
  assert.deepEqual(sentences.liars(reader, null), ["no bound", ""]);
});

test("a person's limits are said, and that there is none", () => {
  const limits = { report: 4, collector: 8, lifetime: Infinity };
  assert.equal(
    sentences.limits(teller, limits),
    "Limits here: 4 for one report, 8 for one collector, no limit in all.",
  );
});
