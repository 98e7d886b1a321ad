/** Answers that do not fit are said to the app; limits, hosts and deadlines. */

import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";

import { address, hostOf } from "../src/address.js";
import { Client, type ClientOptions } from "../src/client.js";
import { exact } from "../src/cost.js";
import { Ledger } from "../src/ledger.js";
import { deliver } from "../src/sending.js";
import { MemoryStore } from "../src/store.js";
import type { Misfit } from "../src/types.js";
import { around, collection } from "./documents.js";
import { vectors } from "./vectors.js";

const STORED = '{"received":1,"stored":1,"failures":[]}';

async function published(
  use: (url: string, sent: string[]) => Promise<void>,
  name = "sample",
): Promise<void> {
  const sent: string[] = [];
  const document = around(collection(name));
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
    const { port } = server.address() as AddressInfo;
    await use(`http://127.0.0.1:${port}/v1/campaigns/${name}`, sent);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

function opened(url: string, options: ClientOptions = {}): Promise<Client> {
  return Client.open(url, { store: new MemoryStore(), ...options });
}

async function questions(url: string): Promise<Record<string, string | number>> {
  const { campaign } = await opened(url);
  return Object.fromEntries(
    campaign.questions.map(({ name, labels, low }) => [name, labels[0] ?? low]),
  );
}

test("an answer that does not fit is told to the app, and never in an error of a live campaign", async () => {
  await published(async (url, sent) => {
    const fitting = await questions(url);
    const { campaign } = await opened(url);
    const category = campaign.questions.find(({ labels }) => labels.length)!.name;
    const number = campaign.questions.find(({ labels }) => !labels.length)!.name;
    const wrong = { ...fitting, [category]: "iPhone", [number]: 1e9 };
    const told: (readonly Misfit[])[] = [];
    const client = await opened(url, { onMisfit: (misfits) => told.push(misfits) });
    const [first] = campaign.questions.filter(({ name }) => name === category || name === number);
    const why = { attribute: first!.name, reason: first!.name === category ? "unknown" : "outside" };
    await assert.rejects(client.preview(wrong), { kind: "input", ...why });
    assert.equal(sent.length, 0);
    const { outcome, misfits } = await client.report(wrong);
    const reasons = new Map(misfits.map((one) => [one.attribute, one.reason]));
    assert.deepEqual([outcome, reasons.get(category), reasons.get(number)], ["stored", "unknown", "outside"]);
    assert.deepEqual(told, [misfits]);
    const { low, high } = campaign.questions.find(({ name }) => name === number)!;
    const problems = new Map(misfits.map((one) => [one.attribute, one.problem]));
    assert.equal(problems.get(category), "the answer is not one of the labels");
    assert.equal(problems.get(number), `the answer is outside the range ${low} to ${high}`);
    assert.deepEqual((await client.report(wrong)).misfits, misfits); // told each time, counted once
    assert.equal(told.length, 2);
    const counted = await client.ledger.misfits();
    assert.deepEqual(
      new Set(counted.map((one) => `${one.attribute} ${one.reason} ${one.times}`)),
      new Set([`${category} unknown 1`, `${number} outside 1`]),
    );
    assert.doesNotMatch(JSON.stringify(counted), /iPhone|1000000000/);
    assert.doesNotMatch(JSON.stringify([sent, misfits]), /iPhone|1000000000/);
    await assert.rejects(opened(url, { misfit: "error" }), { kind: "parameter", message: /mayBeSilent/ });
    const strict = await opened(url, { misfit: "error", mayBeSilent: true });
    await assert.rejects(strict.report(wrong), { kind: "input", ...why });
    assert.deepEqual((await strict.report(fitting)).misfits, []);
    assert.equal(sent.length, 2);
  }, "split");
});

test("a text fits where a label stands for all others", async () => {
  await published(async (url) => {
    const client = await opened(url);
    const { misfits } = await client.report({ ...(await questions(url)), phone: "nokia" });
    assert.deepEqual(misfits, []);
  });
});

test("a preview can be written as JSON", async () => {
  await published(async (url) => {
    const preview = await (await opened(url)).preview(await questions(url));
    const { explained } = JSON.parse(JSON.stringify(preview));
    assert.match(explained[0].law.loss.ratio[0], /^[0-9]+$/);
  });
});

test("an app cannot raise a limit, and is told so", async () => {
  await published(async (url) => {
    await assert.rejects(opened(url, { limits: { report: 6 } }), { kind: "parameter", message: /report limit is 4/ });
    const { ledger } = await opened(url, { limits: { report: 3, lifetime: 16 } });
    assert.equal((await ledger.limits()).report, exact(3));
    await opened(url, { store: ledger.store, limits: { report: 4 } }); // the lower one stays
    assert.equal((await ledger.limits()).report, exact(3));
  });
});

test("a collector is a host, whatever its port and however it is spelt, and this machine is one", async () => {
  const collectors: string[][] = vectors("hosts.json").collectors;
  const hosts = collectors.map((urls) => new Set(urls.map((url) => hostOf(address(url).origin))));
  assert.deepEqual(hosts.map((found) => found.size), collectors.map(() => 1));
  assert.equal(new Set(hosts.flatMap((found) => [...found])).size, collectors.length);
  const ledger = new Ledger(new MemoryStore());
  const charge = (origin: string, digest: string) =>
    ledger.charge({
      ...{ origin, digest, campaign: digest, purpose: "", round: "", memos: [], rounds: 1 },
      ...{ cost: exact(4), limit: exact(4), report: "", reportId: `${origin} ${digest}` },
    });
  await charge("http://localhost:1", "a");
  await charge("http://[::1]:2", "b");
  await assert.rejects(charge("http://127.0.0.1:3", "c"), { kind: "budget", reason: "collector" });
  await charge("https://other.example:443", "d");
});

test("one deadline is for a whole call: who drips holds it no longer", async () => {
  const server = createServer((_, response) => response.writeHead(503, { "retry-after": "1" }).end());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const start = performance.now();
  const patience = { attempts: 50, first: 0.1, most: 60, whole: 1.5 };
  const sending = deliver(address(`http://127.0.0.1:${port}/v1/campaigns/x`), "b", undefined, patience);
  await assert.rejects(sending, { kind: "send" });
  assert.ok(performance.now() - start < 5000);
  server.closeAllConnections();
  server.close();
});
