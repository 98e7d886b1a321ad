import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";

import { Client, type ClientOptions } from "../src/client.js";
import { MurmurationError } from "../src/errors.js";
import { written } from "../src/form.js";
import { type Book, MemoryStore } from "../src/store.js";
import { around, changed, collection } from "./documents.js";
import { vectors } from "./vectors.js";

const STORED = '{"received":1,"stored":1,"failures":[]}';

/** A collector that publishes these bytes and takes every report, and what it was sent. */
async function published(
  document: Uint8Array,
  name: string,
  use: (url: string, sent: string[]) => Promise<void>,
): Promise<void> {
  const sent: string[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (part: Buffer) => (body += part.toString()));
    request.on("end", () => {
      if (request.method === "POST") sent.push(body);
      response.end(request.method === "POST" ? STORED : document);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/campaigns/${name}`, sent);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

function opened(url: string, options: ClientOptions = {}): Promise<Client> {
  return Client.open(url, { store: new MemoryStore(), ...options });
}

const SAMPLE = vectors("keyed/reports.json").find((one: any) => one.campaign === "sample");

test("a preview sends, charges and keeps nothing; the report is shown when it was sent", async () => {
  await published(around(collection("sample")), "sample", async (url, sent) => {
    const client = await opened(url);
    const before = await client.preview(SAMPLE.answers);
    assert.equal(before.made, null);
    assert.equal(before.example?.id, "0".repeat(32));
    assert.deepEqual([sent, await client.ledger.entries()], [[], []]);
    const receipt = await client.report(SAMPLE.answers);
    assert.deepEqual([receipt.outcome, receipt.fresh, sent], ["stored", true, [receipt.report]]);
    const after = await client.preview(SAMPLE.answers);
    assert.deepEqual([after.example, after.made?.report], [null, receipt.report]);
    const again = await client.report(SAMPLE.answers);
    assert.deepEqual([again.fresh, again.epsilon, sent.length], [false, 0, 1]);
    const { campaign, collector, all } = await client.spending();
    assert.deepEqual([campaign, collector, all], [receipt.epsilon, receipt.epsilon, receipt.epsilon]);
  });
});

test("a report that nobody has acknowledged is not shown, and is sent as it is", async () => {
  let busy = true;
  const server = createServer((request, response) => {
    if (request.method === "GET") response.end(around(collection("sample")));
    else request.resume().on("end", () => response.writeHead(busy ? 500 : 200).end(busy ? "" : STORED));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/campaigns/sample`;
  const client = await opened(url);
  await assert.rejects(client.report(SAMPLE.answers), { kind: "send", message: /kept/ });
  const made = await client.made();
  assert.deepEqual([made?.outcome, made?.report], [null, null]);
  const [kept] = await client.ledger.pending();
  busy = false;
  const [receipt] = await client.resend();
  assert.deepEqual([receipt?.outcome, receipt?.report], ["stored", kept!.report]);
  assert.deepEqual(await client.resend(), []);
  server.closeAllConnections();
  server.close();
});

test("a pinned digest, a witness, a name: another campaign is refused", async () => {
  await published(around(collection("sample")), "sample", async (url) => {
    const { digest } = (await opened(url)).campaign;
    await opened(url, { digest });
    await assert.rejects(opened(url, { digest: "0".repeat(64) }), { kind: "mismatch" });
    await assert.rejects(opened(url, { witness: url }), { kind: "parameter" });
    await published(around(collection("sample")), "sample", async (other) => {
      assert.equal((await opened(url, { witness: other })).campaign.digest, digest);
    });
    const changedPart = changed("sample", (found) => (found["epsilon"] = 3.5));
    await published(changedPart, "sample", async (other) => {
      await assert.rejects(opened(url, { witness: other }), { kind: "mismatch" });
    });
  });
  await published(around(collection("sample")), "another", (url) =>
    assert.rejects(opened(url), { kind: "mismatch" }),
  );
});

test("a person agrees to a broken promise in its own words, or not at all", async () => {
  const { document } = vectors("reports/broken-corners.json");
  const { campaign, collection: text } = JSON.parse(document);
  const words = JSON.parse(text).accept_loss;
  await published(new TextEncoder().encode(document), campaign, async (url) => {
    await assert.rejects(opened(url), { kind: "promise" });
    await assert.rejects(opened(url, { acceptLoss: "anything" }), { kind: "promise" });
    assert.equal((await opened(url, { acceptLoss: words })).campaign.acceptLoss, words);
  });
});

test("what the collector would refuse is not charged", async () => {
  const closed = around(collection("sample"), { closes: "2001-01-01T00:00:00Z" });
  await published(closed, "sample", async (url, sent) => {
    const client = await opened(url);
    await assert.rejects(client.report(SAMPLE.answers), { kind: "parameter", reason: "closed" });
    assert.deepEqual([sent, await client.ledger.entries()], [[], []]);
  });
  await published(around(collection("sample"), { upload: "token" }), "sample", async (url) => {
    const client = await opened(url);
    await assert.rejects(client.report(SAMPLE.answers), { kind: "parameter", reason: "token" });
    await (await opened(url, { token: "a-token" })).report(SAMPLE.answers);
  });
});

test("a report that may cost more than the person's limit is refused whatever it is", async () => {
  await published(around(collection("sample")), "sample", async (url, sent) => {
    const { most } = await (await opened(url)).preview(SAMPLE.answers);
    const client = await opened(url, { limits: { report: most / 2 } });
    await assert.rejects(client.report(SAMPLE.answers), { kind: "budget", reason: "report" });
    assert.equal(sent.length, 0);
  });
});

test("a lot gives a device one level, and devices different ones", async () => {
  await published(around(collection("levels")), "levels", async (url) => {
    const secrets = Array.from({ length: 30 }, (_, place) => new Uint8Array(32).fill(place));
    const clients = await Promise.all(secrets.map((secret) => opened(url, { secret })));
    const levels = await Promise.all(clients.map((client) => client.lot()));
    assert.deepEqual(await Promise.all(clients.map((client) => client.lot())), levels);
    assert.equal(new Set(levels).size, clients[0]!.campaign.levels.length);
  });
});

test("a ledger that fails after the report left says that it was sent", async () => {
  await published(around(collection("sample")), "sample", async (url, sent) => {
    class Full extends MemoryStore {
      override change<T>(work: (book: Book) => T): Promise<T> {
        if (sent.length) throw new MurmurationError("ledger", "the disk is full. Nothing was sent.");
        return super.change(work);
      }
    }
    const client = await opened(url, { store: new Full() });
    for (let turn = 1; turn <= 2; turn++) {
      await assert.rejects(client.report(SAMPLE.answers), (error: MurmurationError) => {
        assert.match(error.message, /it was sent/);
        assert.doesNotMatch(error.message, /Nothing was sent/);
        return error.kind === "send";
      });
      assert.deepEqual([sent.length, new Set(sent).size], [turn, 1]); // the same bytes again
    }
  });
});

test("a level is offered for what it costs", async () => {
  await published(around(collection("levels")), "levels", async (url) => {
    const client = await opened(url);
    const offered = client.campaign.levels.map(({ name }) => client.most(name));
    assert.deepEqual(offered, [0.9999999999999998, 1.4999999999999998, 2.9999999999999996]);
    const names = client.campaign.levels.map(({ name }) => name);
    assert.deepEqual([1.2, 1.5, 20].map((own) => client.levelWithin(own)), names);
    assert.throws(() => client.levelWithin(0.5), /no level spends/);
  });
});

test("a level whose law breaks its promise is offered for the loss", async () => {
  const weights = [
    [3, 1],
    [1, 3],
  ];
  const law = { mechanism: "dct", parameters: { epsilon: 0.5, alpha: 1 }, law: { weights, values: [-1, 1] } };
  const words = "a loss of 1.0986122886681098 where 0.5 is promised";
  const text = written({
    ...{ wire: 1, campaign: "x", epsilon: 0.5, strategy: "split", levels: [["all", 1]], accept_loss: words },
    attributes: [{ name: "a", low: 0, high: 1, outside: "clamp" }],
    cells: [{ attributes: [0], level: 0, ...law }],
  });
  await published(around(text), "x", async (url) => {
    const client = await opened(url, { acceptLoss: words });
    assert.equal(client.campaign.levels[0]!.epsilon, 0.5);
    assert.equal(client.most("all"), 1.0986122886681098);
  });
});

test("a campaign for devices with a token each needs one, and gets it", async () => {
  const bytes = around(collection("sample"), { upload: "one-device" });
  const shown: (string | undefined)[] = [];
  await published(bytes, "sample", async (url, sent) => {
    const client = await opened(url);
    assert.equal(client.campaign.upload, "one-device");
    await assert.rejects(client.report(SAMPLE.answers), { kind: "parameter", reason: "token" });
    assert.deepEqual(sent, []);
    const plain = globalThis.fetch;
    globalThis.fetch = (where, request) => {
      shown.push(new Headers(request?.headers).get("authorization") ?? undefined);
      return plain(where, request);
    };
    try {
      const mine = await opened(url, { token: "murmur1_mine" });
      assert.equal((await mine.report(SAMPLE.answers)).outcome, "stored");
    } finally {
      globalThis.fetch = plain;
    }
  });
  assert.deepEqual(shown, [undefined, "Bearer murmur1_mine"]);
});
