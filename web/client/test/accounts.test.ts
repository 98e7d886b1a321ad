/** Which charges an account allows is what the shared vectors say. */

import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";

import { Client } from "../src/client.js";
import { approximate, exact, written } from "../src/cost.js";
import { MurmurationError } from "../src/errors.js";
import { Ledger } from "../src/ledger.js";
import { MemoryStore } from "../src/store.js";
import { vectors } from "./vectors.js";

for (const { name, limits, charges } of vectors("keyed/accounts.json")) {
  test(`an account allows what the file says: ${name}`, async () => {
    const ledger = new Ledger(new MemoryStore());
    await ledger.raiseLimit("report", Infinity);
    for (const [limit, most] of Object.entries<string>(limits)) {
      await ledger.raiseLimit(limit as "lifetime", Infinity);
      await ledger.lower({ [limit]: approximate(exact(most)) });
    }
    for (const [number, one] of charges.entries()) {
      const { origin, campaign, digest, round, rounds, permanent, aside } = one;
      const charged = ledger.charge({
        ...{ origin, campaign, digest, round, rounds, purpose: "" },
        cost: exact(one.cost),
        memos: permanent.map((memo: any) => ({ name: memo.name, cost: exact(memo.cost) })),
        ...{ limit: exact(one.limit), aside: aside === null ? undefined : exact(aside) },
        ...{ report: "{}", reportId: String(number) },
      });
      const outcome = await charged.then(
        ({ cost }) => written(cost),
        (problem: MurmurationError) => `refused: ${problem.reason}`,
      );
      assert.equal(outcome, one.outcome, `charge ${number}`);
    }
  });
}

test("without budget a device says no answer, if it may be said, and is charged nothing", async () => {
  const { document, people } = vectors("reports/silent.json");
  const { campaign: name } = JSON.parse(document);
  const sent: string[] = [];
  const server = createServer((request, response) => {
    request.on("data", (part: Buffer) => sent.push(part.toString()));
    const stored = '{"received":1,"stored":1,"failures":[]}';
    request.on("end", () => response.end(request.method === "POST" ? stored : document));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/campaigns/${name}`;
  try {
    const secret = new Uint8Array(32).fill(7);
    const said: string[] = [];
    for (const [answers, limits] of [[people[0].answers, { lifetime: 0 }], [{}, {}]]) {
      const client = await Client.open(url, { store: new MemoryStore(), secret, limits });
      await client.ledger.raiseLimit("report", Infinity);
      const receipt = await client.report(answers);
      assert.equal(receipt.outcome, "stored");
      assert.equal(receipt.outOfBudget, said.length ? "" : "lifetime");
      assert.equal(receipt.epsilon > 0, said.length > 0);
      said.push(sent.at(-1)!);
    }
    assert.equal(said[0], said[1]); // the bytes of a person who has no answers
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test("limits are numbers for the limits that there are; others are refused, by name", async () => {
  const wrong: [unknown, RegExp][] = [
    [{ foo: 1 }, /see foo/],
    [{ report: "3" }, /see report/],
    [{ lifetime: NaN }, /see lifetime/],
    [{ collector: -1 }, /see collector/],
    [5, /see limits/],
    [null, /see limits/],
  ];
  const document = vectors("reports/silent.json").document;
  const server = createServer((_, response) => response.end(document));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}/v1/campaigns/${JSON.parse(document).campaign}`;
  try {
    for (const [limits, message] of wrong) {
      const options = { store: new MemoryStore(), limits: limits as any };
      await assert.rejects(Client.open(url, options), { kind: "parameter", message });
    }
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
