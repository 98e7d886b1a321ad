/** Where the shared vectors are: words in, report out, the same for every language. */

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { Words } from "../src/words.js";

const REPOSITORY = join(import.meta.dirname, "../../../..");
export const FOLDER = ["docs/vectors", "tests/golden"]
  .map((folder) => join(REPOSITORY, folder))
  .find((folder) => existsSync(join(folder, "words.json")))!;

export function vectors(name: string): any {
  return JSON.parse(readFileSync(join(FOLDER, name), "utf8"));
}

/** Return words as a stream, from one of them on. */
export function wordsFrom(words: readonly string[], first: number, many = 4096): Words {
  const bytes = new Uint8Array(8 * many);
  const view = new DataView(bytes.buffer);
  words
    .slice(first, first + many)
    .forEach((word, i) => view.setBigUint64(8 * i, BigInt(word), true));
  return new Words(bytes);
}

export const WORDS: readonly string[] = vectors("words.json").words;
