/** Words that follow from a secret, step by step, and numbers that are drawn from words. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Keyed, type Part, WHOLE, Words, context, drawn, hex, system } from "../src/words.js";
import { vectors, wordsFrom } from "./vectors.js";

const { secret, ...purposes } = vectors("keyed/words.json");
const SECRET = Uint8Array.from(Buffer.from(secret, "hex"));
type Step = { parts: (string | { hex: string })[]; context: string; key: string; words: string[] };

test("contexts, keys and words are those of the shared vectors", async () => {
  for (const { parts, context: text, key, words } of Object.values<Step>(purposes)) {
    const own: Part[] = parts.map((part) =>
      typeof part === "string" ? part : Uint8Array.from(Buffer.from(part.hex, "hex")),
    );
    assert.equal(hex(context(own)), text);
    const keyed = new Keyed(SECRET, own.slice(0, 2));
    assert.equal(hex(await keyed.name(...own.slice(2))), key);
    const found = await keyed.stream(...own.slice(2))(words.length);
    const wanted = wordsFrom(words, 0, words.length);
    assert.equal(hex(found.bytes.subarray(0, 8 * words.length)), hex(wanted.bytes));
  }
});

test("a law that needs more words is drawn again from the first word on", async () => {
  const stream = new Keyed(SECRET, []).stream("many");
  let turns = 0;
  const found = await drawn([stream], (own) => {
    turns++;
    return Array.from({ length: 1000 }, () => own!.word());
  });
  assert.ok(turns > 1);
  const whole = await stream(1000);
  assert.deepEqual(
    found,
    Array.from({ length: 1000 }, () => whole.word()),
  );
});

test("fresh words stay the same while more of them are asked for", async () => {
  const stream = system();
  const first = (await stream(8)).bytes;
  assert.deepEqual((await stream(20_000)).bytes.subarray(0, 64), first);
  assert.notDeepEqual((await system()(8)).bytes, first);
});

test("what is past the last whole turn is drawn again, after all others", () => {
  const late = String(2n ** 64n - 1n); // its top 52 bits are the last number of all
  const word = (number: number) => String(BigInt(number) << 12n);
  const words = [late, word(7), late, word(5), word(4)];
  assert.deepEqual(wordsFrom(words, 0, 5).allBelow(3, 3), [2, 1, 1]);
  assert.equal(wordsFrom(words, 0, 5).below(3), 1);
  // 2^52 is a whole number of turns of 2^20.
  assert.equal(wordsFrom(words, 0, 5).below(2 ** 20), 2 ** 20 - 1);
  assert.equal(wordsFrom([late], 0, 1).word(), WHOLE - 1);
});

test("bytes and halves take whole words, lowest first", () => {
  const words = new Words(Uint8Array.from({ length: 24 }, (_, i) => i));
  assert.deepEqual([...words.octets(3)], [0, 1, 2]);
  assert.deepEqual(words.halves(2), [0x0b0a0908, 0x0f0e0d0c]);
  assert.equal(words.word(), Number(0x1716151413121110n >> 12n));
  assert.throws(() => words.word(), /no more words/);
});

test("a secret has 32 bytes", () => {
  assert.throws(() => new Keyed(new Uint8Array(16), []), {
    kind: "parameter",
    message: /32 bytes/,
  });
});
