/** Every mechanism makes the reports that the shared vectors show: words in, report out. */

import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { test } from "node:test";

import { lawOf } from "../src/laws/index.js";
import { LAWS } from "../src/protocol.js";
import { hex } from "../src/words.js";
import { FOLDER, WORDS, vectors, wordsFrom } from "./vectors.js";

/** For vectors of length 1, which no question of a campaign asks for. */
const NOT_ASKED = ["privunit"];

const names = readdirSync(FOLDER)
  .filter((file) => file.endsWith(".json"))
  .map((file) => file.slice(0, -5))
  .filter((name) => [...Object.keys(LAWS), ...NOT_ASKED].includes(name));

for (const name of names) {
  test(`${name} makes the same reports from the same words`, () => {
    for (const { mechanism, parameters, law, people } of vectors(`${name}.json`)) {
      if (!law) continue; // longer than 64 KiB: all tables are drawn from in one way
      const document = { mechanism, parameters, law };
      if (NOT_ASKED.includes(mechanism)) {
        assert.throws(() => lawOf(document), /no law is called/);
        continue;
      }
      const made = lawOf(document);
      for (const { input, word, report } of people) {
        const words = wordsFrom(WORDS, word);
        const answer = Array.isArray(input) ? input : [input ?? NaN];
        const sent = made.respond(answer, words, words);
        assert.equal(hex(Uint8Array.from(sent)), report);
        assert.equal(sent.length, made.size);
      }
    }
  });
}
