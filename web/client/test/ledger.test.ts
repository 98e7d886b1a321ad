import assert from "node:assert/strict";
import { test } from "node:test";

import { approximate, exact, sum, written } from "../src/cost.js";
import { type Charge, Ledger } from "../src/ledger.js";
import { BrowserStore, MemoryStore } from "../src/store.js";

const HERE = "https://collector.example:443";

function charge(id: string, more: Partial<Charge> = {}): Charge {
  return {
    ...{ origin: HERE, campaign: "phones", digest: id, purpose: "", round: "" },
    ...{ cost: exact(1), memos: [], limit: Infinity, rounds: 1 },
    ...{ report: `{"id":"${id}"}`, reportId: id },
    ...more,
  };
}

test("ten tenths are one, and a limit of one allows for them", () => {
  assert.equal(written(sum(Array.from({ length: 10 }, () => exact(0.1)))), "1");
  assert.equal(written(exact(5e-324)), `0.${"0".repeat(323)}5`);
  assert.equal(written(exact(1.5e21)), `15${"0".repeat(20)}`);
  for (const cost of [0, 0.1, 1 / 3, 2.5e-7, 1.7976931348623157e308, Infinity]) {
    assert.equal(approximate(exact(written(exact(cost)))), cost);
  }
  assert.equal(sum([exact(1), Infinity]), Infinity);
  for (const bad of [-1, NaN, "1/2", ""]) assert.throws(() => exact(bad), { kind: "parameter" });
});

test("what is spent is exact, and no limit is passed", async () => {
  const ledger = new Ledger(new MemoryStore());
  await ledger.lower({ lifetime: 1 });
  for (let turn = 0; turn < 10; turn++) await ledger.charge(charge(`${turn}`, { cost: exact(0.1) }));
  assert.equal(written(await ledger.spent()), "1");
  const one = charge("more", { cost: exact(1e-9) });
  await assert.rejects(ledger.charge(one), { kind: "budget", reason: "lifetime" });
  assert.equal((await ledger.entries()).length, 10);
});

test("limits: 4 on a report, 8 on a collector, 16 on all; only the person raises one", async () => {
  const ledger = new Ledger(new MemoryStore());
  await ledger.charge(charge("a", { cost: exact(8) }));
  await assert.rejects(ledger.charge(charge("b")), { kind: "budget", reason: "collector" });
  await ledger.charge(charge("c", { origin: "https://other.example:443", cost: exact(8) }));
  const third = charge("d", { origin: "https://third.example:443" });
  await assert.rejects(ledger.charge(third), { kind: "budget", reason: "lifetime" });
  await ledger.lower({ lifetime: 100, report: 2 });
  assert.deepEqual(Object.values(await ledger.limits()).map(approximate), [2, 8, 16]);
  await assert.rejects(ledger.raiseLimit("lifetime", 5), { kind: "parameter" });
  await ledger.raiseLimit("lifetime", Infinity);
  await ledger.charge(third);
  assert.deepEqual(await Promise.all([ledger.spent(), ledger.spent(HERE)]), [exact(17), exact(8)]);
});

test("a campaign's own limit, and how often it asks", async () => {
  const ledger = new Ledger(new MemoryStore());
  const round = (day: string, more: Partial<Charge> = {}) =>
    charge(day, { digest: "same", round: day, rounds: 2, limit: exact(2.5), ...more });
  await ledger.charge(round("monday"));
  await assert.rejects(ledger.charge(round("tuesday", { cost: exact(2) })), { reason: "campaign" });
  await ledger.charge(round("tuesday"));
  await assert.rejects(ledger.charge(round("wednesday")), { reason: "rounds" });
});

test("a question has one report, whatever is drawn later", async () => {
  const ledger = new Ledger(new MemoryStore());
  const both = await Promise.all([
    ledger.charge(charge("a")),
    ledger.charge(charge("a", { report: "other", reportId: "other" })),
  ]);
  assert.deepEqual(both.map((one) => one.fresh), [true, false]);
  assert.equal(both[1]!.entry.report, '{"id":"a"}');
  assert.equal(await ledger.spent(), exact(1));
});

test("a permanent answer is paid for once, and noted in no order of time", async () => {
  const ledger = new Ledger(new MemoryStore());
  const memo = (name: string) => ({ name, cost: exact(0.5) });
  const turn = (id: string, names: string[]) =>
    charge(id, { cost: 0n, digest: "same", round: id, rounds: 9, memos: names.map(memo) });
  assert.equal((await ledger.charge(turn("a", ["z", "z", "k"]))).cost, exact(1));
  assert.equal((await ledger.charge(turn("b", ["z", "c"]))).cost, exact(0.5));
  assert.equal((await ledger.charge(turn("c", ["z"]))).cost, 0n);
  const names = await ledger.store.read((book) => book.paid.map((paid) => paid.name));
  assert.deepEqual(names, ["c", "k", "z"]);
});

test("what waits is what nobody has acknowledged; the first answer counts", async () => {
  const ledger = new Ledger(new MemoryStore());
  await ledger.charge(charge("a"));
  await ledger.charge(charge("b", { origin: "https://other.example:443" }));
  assert.deepEqual((await ledger.pending(HERE)).map((entry) => entry.reportId), ["a"]);
  assert.equal((await ledger.acknowledge("a", "stored", false)).report, '{"id":"a"}');
  const again = await ledger.acknowledge("a", "refused:malformed", true);
  assert.deepEqual([again.outcome, again.report], ["stored", null]);
  assert.deepEqual((await ledger.pending()).map((entry) => entry.reportId), ["b"]);
  await assert.rejects(ledger.acknowledge("c", "stored", false), { kind: "ledger" });
});

test("a secret is made once; another one is not taken for it", async () => {
  const ledger = new Ledger(new MemoryStore());
  const secret = await ledger.secret();
  assert.equal(secret.length, 32);
  assert.deepEqual(await ledger.secret(), secret);
  const own = new Uint8Array(32).fill(7);
  assert.deepEqual(await ledger.secret(own), own);
  await ledger.charge(charge("a"));
  await assert.rejects(ledger.secret(secret), { kind: "mismatch" });
  assert.deepEqual(await ledger.secret(), own);
  assert.throws(() => ledger.secret(own.subarray(1)), { kind: "parameter" });
});

test("without storage nobody forgets in silence", () => {
  assert.throws(() => new BrowserStore(), { kind: "ledger", message: /MemoryStore/ });
});

test("what throws changes nothing, and nobody holds the book itself", async () => {
  const ledger = new Ledger(new MemoryStore());
  const broken = ledger.store.change((book) => {
    book.limits.report = "99";
    throw new Error("late");
  });
  await assert.rejects(broken);
  await ledger.store.read((book) => (book.limits.report = "99"));
  assert.equal((await ledger.limits()).report, exact(4));
});
