/** Documents by anybody: what is published is read, and anything else is refused before use. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { readDocument } from "../src/document.js";
import { CAMPAIGNS, around, collection, read, shared } from "./documents.js";
import { vectors } from "./vectors.js";

test("the shared documents that a device must refuse are refused", async (context) => {
  for (const { name, why, document } of vectors("refused.json")) {
    await context.test(`${name}: ${why}`, async () => {
      const { campaign } = JSON.parse(document);
      await assert.rejects(read(new TextEncoder().encode(document), campaign), {
        name: "MurmurationError",
      });
    });
  }
});

for (const name of CAMPAIGNS) test(`${name} is read`, async () => assert.equal((await shared(name)).name, name));
void readDocument;
void around;
void collection;
