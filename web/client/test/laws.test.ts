/** Every mechanism makes the reports that the shared vectors show: words in, report out. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";

import { lawOf } from "../src/laws/index.js";
import { LAWS } from "../src/protocol.js";
import { privunit } from "../src/training/privunit.js";
import { hex } from "../src/words.js";
import { FOLDER, WORDS, vectors, wordsFrom } from "./vectors.js";

/** For vectors of length 1, which no question of a campaign asks for. */
const NOT_ASKED = ["privunit"];

/** A law that is too long for the file of its mechanism. */
function long(fingerprint: string): object {
  const packed = readFileSync(join(FOLDER, "laws", `${fingerprint.slice(0, 16)}.json.gz`));
  return JSON.parse(gunzipSync(packed).toString());
}

const names = readdirSync(FOLDER)
  .filter((file) => file.endsWith(".json"))
  .map((file) => file.slice(0, -5))
  .filter((name) => [...Object.keys(LAWS), ...NOT_ASKED].includes(name));

for (const name of names) {
  test(`${name} makes the same reports from the same words`, () => {
    for (const { mechanism, parameters, law, fingerprint, people } of vectors(`${name}.json`)) {
      const document = { mechanism, parameters, law: law ?? long(fingerprint) };
      if (NOT_ASKED.includes(mechanism)) {
        assert.throws(() => lawOf(document), /no law is called/);
      }
      const made = NOT_ASKED.includes(mechanism) ? privunit(document) : lawOf(document);
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
