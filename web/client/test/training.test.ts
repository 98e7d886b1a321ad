/** Trainings: the same bits and the same bytes as Python, and documents that are refused. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { createServer } from "node:http";

import { MurmurationError } from "../src/errors.js";
import { reportBytes } from "../src/report.js";
import { MemoryStore } from "../src/store.js";
import { TrainingClient, answered, encoded } from "../src/training/client.js";
import { followed } from "../src/training/chain.js";
import { readRound, readTraining } from "../src/training/document.js";
import { valuesOf } from "../src/training/questions.js";
import { Keyed, digestOf } from "../src/words.js";
import { FOLDER, vectors } from "./vectors.js";

const utf8 = (text: string) => new TextEncoder().encode(text);
const ADDRESS = "https://collector.example/v1/campaigns/buys";

for (const file of readdirSync(join(FOLDER, "training"))) {
  test(`devices make what is written: ${file}`, async () => {
    const { origin, document, rounds, devices, crowd } = vectors(`training/${file}`);
    const training = await readTraining(utf8(document), { address: ADDRESS });
    const read = await Promise.all(rounds.map((text: string) => readRound(utf8(text), training)));
    for (const [place, round] of read.entries()) {
      for (const [role, expected] of crowd[place].entries()) {
        const many = Array.from({ length: 300 }, (_, i) => {
          const x = Array.from(
            { length: training.width },
            (_, j) => ((37 * i + 101 * j + 13 * i * j) % 2001) / 1000 - 1,
          );
          const y = file === "linear.json" ? ((53 * i) % 2001) / 1000 - 1 : i % 2 ? 1 : -1;
          return valuesOf(round.roles[role]!, x, y, training.objective).map((one) => one + 0);
        });
        const octets = new Uint8Array(new Float64Array(many.flat()).buffer);
        assert.equal(createHash("sha256").update(octets).digest("hex"), expected);
      }
    }
    for (const one of devices) {
      const secret = Uint8Array.from(Buffer.from(one.secret, "hex"));
      const keyed = new Keyed(secret, [origin, training.digest]);
      const answer = await encoded(training, one.features, one.target, keyed);
      assert.deepEqual(answer, { x: one.x, y: one.y });
      for (const [place, round] of read.entries()) {
        const expected = one.rounds[place];
        const report = await answered(training, round, answer, secret, origin);
        assert.equal(report.entries[0]![0], expected.role);
        const role = round.roles[expected.role]!;
        const value = valuesOf(role, answer.x, answer.y, training.objective);
        assert.deepEqual(value, expected.value);
        assert.equal(new TextDecoder().decode(reportBytes(report)), expected.report);
      }
    }
  });
}

// --- the chain of rounds -------------------------------------------------------------------------

const CHAIN = vectors("chain.json");

for (const one of CHAIN.cases) {
  test(`rounds follow each other: ${one.what}`, async () => {
    const training = await readTraining(utf8(CHAIN.document), { address: ADDRESS });
    const read = (name: string) => readRound(utf8(CHAIN.rounds[name]), training);
    const shown = await Promise.all((one.shown as string[]).map(read));
    const fetch = async (number: number) => shown.find((round) => round.number === number)!;
    const link = await read(one.offered);
    const tried = followed(link, { ...one.known, 0: training.digest }, fetch);
    if (one.problem === null) await tried;
    else await assert.rejects(tried, (problem: any) => problem.reason === one.problem);
  });
}

// --- documents that are refused -----------------------------------------------------------------

const GOLDEN = vectors("training/logistic.json");
const training = await readTraining(utf8(GOLDEN.document), { address: ADDRESS });

/** A document whose inner text was changed, with the digest that it then has. */
async function changed(document: string, key: string, change: (text: string) => string) {
  const found = JSON.parse(document);
  found[key] = change(found[key]);
  found.digest = await digestOf(found[key]);
  return utf8(JSON.stringify(found));
}

const refusedBy = (kind: string) => (problem: unknown) =>
  problem instanceof MurmurationError && problem.kind === kind;

for (const [name, kind, change] of [
  ["epsilon of a law x 1.1", "promise", (text: string) => text.replace(/"epsilon":1.0(?=,"d")/g, '"epsilon":1.1')],
  ["more than epsilon", "promise", (text: string) => text.replace('"epsilon":1.0', '"epsilon":0.9')],
  ["another spelling", "format", (text: string) => text.replace('"deadline":21600', '"deadline":2.16e4')],
  ["a key more", "format", (text: string) => text.replace('"kind":"model"', '"kind":"model","x":1')],
  ["weights swapped", "format", (text: string) => text.replace(/"weights":\[(\d+),/, '"weights":[1,')],
  ["a typical range of nothing", "format", (text: string) => text.replace("[20.0,60.0]", "[20.0,20.0]")],
  ["three labels", "format", (text: string) => text.replace('["no","yes"]', '["no","yes","x"]')],
] as const) {
  test(`a training is refused: ${name}`, async () => {
    const document = await changed(GOLDEN.document, "collection", change);
    await assert.rejects(readTraining(document, { address: ADDRESS }), refusedBy(kind));
  });
}

const LATER = GOLDEN.rounds.at(-1) as string;

for (const [name, change] of [
  ["no number", (text: string) => text.replace(/"scale":\[[^,\]]+/, '"scale":[null')],
  ["a scale of 0", (text: string) => text.replace(/"scale":\[[^,\]]+/, '"scale":[0.0')],
  ["a huge weight", (text: string) => text.replace(/"weights":\[[^,]+/, '"weights":[1e+200')],
  ["infinity", (text: string) => text.replace(/"level":[^,]+/, '"level":1e999')],
  ["a minus 0", (text: string) => text.replace(/"level":[^,]+/, '"level":-0.0')],
  ["a whole number", (text: string) => text.replace(/"half":1.0/, '"half":1')],
  ["another law", (text: string) => text.replace('"law":0', '"law":1')],
  ["no such law", (text: string) => text.replace('"law":0', '"law":9')],
  ["a key more", (text: string) => text.replace('"law":0', '"law":0,"x":1.0')],
  ["ends of one role", (text: string) => text.replace(/\}$/, ',"ends":[]}')],
  ["another question", (text: string) => text.replace('"ask":"right"', '"ask":"secret"')],
  ["a short vector", (text: string) => text.replace(/"centre":\[[^,]+,/, '"centre":[')],
] as const) {
  test(`a round is refused: ${name}`, async () => {
    assert.notEqual(change(JSON.parse(LATER).asked), JSON.parse(LATER).asked);
    const document = await changed(LATER, "asked", change);
    await assert.rejects(readRound(document, training), refusedBy("format"));
  });
}

test("a round whose text was changed is refused", async () => {
  const text = LATER.replace('\\"half\\":1.0', '\\"half\\":2.0');
  assert.notEqual(text, LATER);
  await assert.rejects(readRound(utf8(text), training), refusedBy("format"));
});

test("whatever a round says, a value is one that its law takes", async () => {
  const far = [-(2 ** 100), -1e30, -1, -1e-30, 0, 1e-30, 1, 1e30, 2 ** 100];
  const model = (weight: number, scale: number) => ({
    ...{ weights: [weight, -weight, weight], level: weight, centre: [weight, 0, -weight] },
    scale: [scale, 1, scale].map((one) => Math.max(Math.abs(one), 2 ** -100)),
  });
  for (const text of GOLDEN.rounds) {
    for (const role of (await readRound(utf8(text), training)).roles) {
      for (const weight of far) {
        for (const scale of far) {
          const numbers = Object.fromEntries(
            Object.keys(role.numbers).map((key) => [key, Math.max(Math.abs(scale), 2 ** -100)]),
          );
          const bent = {
            ...{ ask: role.ask, law: role.law, numbers, ...(role.column && { column: role.column }) },
            ...{ model: model(weight, scale), without: model(scale, weight) },
          };
          const value = valuesOf(bent, [1, -1, 2 ** 20], 1, training.objective);
          if (role.ask === "column" || role.ask === "bin") {
            assert.ok(Number.isInteger(value[0]) && value[0]! >= 0 && value[0]! < 16);
            continue;
          }
          const size = value.reduce((sum, one) => sum + one * one, 0);
          assert.ok(size <= 1, `${role.ask} ${weight} ${scale} ${value}`);
        }
      }
    }
  }
});

// --- a device -----------------------------------------------------------------------------------

/** A collector of one training: what it was sent, and what it says. */
async function collector() {
  const state = {
    ...{ round: CHAIN.rounds.a1 as string | null, bodies: [] as string[], status: 200, refuse: "" },
    shown: [CHAIN.rounds.a1, CHAIN.rounds.a2, CHAIN.rounds.a3] as string[],
  };
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const path = request.url!.replace("/v1/campaigns/buys", "");
      let [status, body] = [404, '{"type":"/problems/no-round","title":"x"}'];
      if (path === "") [status, body] = [200, CHAIN.document as string];
      else if (path === "/reports") {
        state.bodies.push(Buffer.concat(parts).toString());
        const failures = state.refuse ? [{ index: 0, type: `/problems/${state.refuse}` }] : [];
        body = JSON.stringify({ received: 1, stored: 1 - failures.length, failures });
        status = state.status;
      } else if (path === "/round" && state.round) [status, body] = [200, state.round];
      else if (/^\/rounds\/[123]$/.test(path)) [status, body] = [200, state.shown[Number(path.at(-1)) - 1]!];
      response.writeHead(status, { "Content-Type": "application/json" }).end(body);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  return { ...{ state, server }, url: `http://127.0.0.1:${port}/v1/campaigns/buys` };
}

const ANN = { age: 44, home: "own" };
const ONCE = { attempts: 1, first: 0, most: 0 };

test("one report in all rounds", async () => {
  const { state, server, url } = await collector();
  try {
    const store = new MemoryStore();
    const client = await TrainingClient.open(url, { store });
    const first = await client.train(ANN, "yes");
    assert.deepEqual([first.outcome, first.epsilon, first.fresh], ["stored", 1, true]);
    state.round = CHAIN.rounds.a4;
    const again = await (await TrainingClient.open(url, { store })).train({ age: 1, home: "rent" }, "no");
    assert.deepEqual([again.outcome, again.epsilon, again.fresh], ["stored", 0, false]);
    assert.equal(again.reportId, first.reportId);
    assert.equal(state.bodies.length, 1);
    assert.equal((await client.ledger.entries()).length, 1);
  } finally {
    server.close();
  }
});

test("a training tells the app what does not fit, counts it and never sends it", async () => {
  const { state, server, url } = await collector();
  try {
    const told: unknown[] = [];
    const onMisfit = (misfits: unknown) => told.push(misfits);
    const client = await TrainingClient.open(url, { store: new MemoryStore(), onMisfit });
    const { misfits, outcome } = await client.train({ ...ANN, age: 1e9 }, "yes");
    assert.deepEqual([misfits.length, misfits[0]!.attribute, outcome], [1, "age", "stored"]);
    assert.match(misfits[0]!.problem, /^the answer is outside the range [0-9]/);
    assert.deepEqual(told, [misfits]);
    assert.deepEqual((await client.ledger.misfits()).map((one) => one.times), [1]);
    assert.deepEqual((await client.train(ANN, "yes")).misfits, []);
    const misfit = { store: new MemoryStore(), misfit: "error", mayBeSilent: true } as const;
    const strict = await TrainingClient.open(url, misfit);
    await assert.rejects(strict.train({ ...ANN, age: 1e9 }, "yes"), { kind: "input", reason: "outside" });
    assert.equal(state.bodies.length, 1);
  } finally {
    server.close();
  }
});

test("what was not answered is sent again as it was, and stays what it was", async () => {
  const { state, server, url } = await collector();
  try {
    const client = await TrainingClient.open(url, { store: new MemoryStore(), patience: ONCE });
    state.status = 500;
    await assert.rejects(client.train(ANN, "yes"), refusedBy("send"));
    [state.status, state.refuse, state.round] = [200, "stale-round", CHAIN.rounds.a4];
    assert.equal((await client.train(ANN, "no")).outcome, "refused:stale-round");
    state.refuse = "";
    assert.equal((await client.train(ANN, "no")).outcome, "refused:stale-round");
    assert.equal(new Set(state.bodies).size, 1);
    assert.equal(Number((await client.ledger.spent()) !== 0n), 1);
  } finally {
    server.close();
  }
});

/** A store that dies when a report is let go: the page was closed. */
class Closed extends MemoryStore {
  dies = true;

  override async change<T>(work: (book: any) => T): Promise<T> {
    return super.change((book) => {
      const held = book.entries.some((entry) => entry.held);
      const result = work(book);
      if (this.dies && held) throw new Error("the page was closed");
      return result;
    });
  }
}

for (const [name, later, many] of [
  ["the same round", 1, 1],
  ["another round", 4, 1],
  ["no round", -1, 0],
] as const) {
  test(`a page that was closed before it let go: ${name}`, async () => {
    const { state, server, url } = await collector();
    try {
      const store = new Closed();
      const client = await TrainingClient.open(url, { store });
      await assert.rejects(client.train(ANN, "yes"), /closed/);
      const [made] = await client.ledger.entries();
      assert.equal(state.bodies.length, 0);
      store.dies = false;
      state.round = later < 0 ? null : CHAIN.rounds[`a${later}`];
      if (later < 0) {
        await assert.rejects(client.train(ANN, "yes"), refusedBy("parameter"));
        assert.equal(await client.ledger.spent(), 0n);
      } else {
        assert.equal((await client.train(ANN, "no")).outcome, "stored");
        assert.equal(state.bodies[0] === made!.report, later === 1);
      }
      assert.equal((await client.ledger.entries()).length, many);
    } finally {
      server.close();
    }
  });
}

test("the chain is shown, kept and pinned", async () => {
  const { state, server, url } = await collector();
  const { a1, a2, a3, a4, b2, b3 } = CHAIN.rounds;
  const digest = (text: string) => JSON.parse(text).digest as string;
  try {
    const store = new MemoryStore();
    state.round = a3;
    const links = await (await TrainingClient.open(url, { store })).chain();
    assert.deepEqual(links.map((link) => link.digest), [a1, a2, a3].map(digest));
    assert.equal(links[0]!.after, JSON.parse(CHAIN.document).digest);
    for (const [offered, reason] of [[b3, "two-rounds"], [b2, "two-rounds"], [a2, "earlier-round"]]) {
      state.round = offered;
      const client = await TrainingClient.open(url, { store });
      await assert.rejects(client.train(ANN, "yes"), (one: any) => one.reason === reason);
    }
    [state.round, state.shown] = [a4, [a1, b2, a3]];
    for (const rounds of [{ 1: digest(a1) }, { 2: digest(b2) }]) {
      const client = await TrainingClient.open(url, { store: new MemoryStore(), rounds });
      await assert.rejects(client.train(ANN, "yes"), (one: any) => one.reason === "does-not-follow");
    }
    await assert.rejects(
      (await TrainingClient.open(url, { store: new MemoryStore(), rounds: { 1: "x" } })).chain(),
      refusedBy("parameter"),
    );
    assert.equal(state.bodies.length, 0);
    assert.equal((await (await TrainingClient.open(url, { store })).train(ANN, "yes")).outcome, "stored");
  } finally {
    server.close();
  }
});

test("limits of the person", async () => {
  const { server, url } = await collector();
  try {
    const limits = { report: 0.5 };
    const client = await TrainingClient.open(url, { store: new MemoryStore(), limits });
    await assert.rejects(client.train(ANN, "yes"), refusedBy("budget"));
  } finally {
    server.close();
  }
});
