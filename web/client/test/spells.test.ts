import assert from "node:assert/strict";
import { test } from "node:test";

import { encode } from "../src/answers.js";
import { exact } from "../src/cost.js";
import { readDocument } from "../src/document.js";
import { Ledger } from "../src/ledger.js";
import { draw } from "../src/report.js";
import { MemoryStore } from "../src/store.js";
import type { Campaign } from "../src/types.js";
import { vectors } from "./vectors.js";

const ORIGIN = "https://collector.example:443";
const FILE = vectors("reports/spells.json");
const WEEKS = FILE.people.map((person: { round: string }) => person.round) as string[];

function campaign(): Promise<Campaign> {
  return readDocument(new TextEncoder().encode(FILE.document), { address: FILE.address });
}

/** A week's report, charged as the client does. */
async function said(asked: Campaign, ledger: Ledger, round: string, hours: number, mood: string) {
  const secret = await ledger.secret(new Uint8Array(32).fill(7));
  const kept = (name: string) => ledger.kept(name);
  const made = await draw(asked, encode(asked, { hours, mood }), { secret, origin: ORIGIN, round, kept });
  const { entry, cost } = await ledger.charge({
    ...{ origin: ORIGIN, campaign: asked.name, digest: asked.digest, purpose: "p", round },
    ...{ cost: exact(0), limit: exact(asked.limit!), rounds: asked.rounds },
    memos: made.memos.map(({ name, charge, answer }) => ({ name, cost: exact(charge), answer })),
    report: new TextDecoder().decode(made.bytes),
    reportId: made.report.id,
  });
  return { report: entry.report, cost };
}

async function life(values: readonly (readonly [number, string])[]) {
  const [asked, ledger] = [await campaign(), new Ledger(new MemoryStore())];
  for (const name of ["report", "collector", "lifetime"] as const) await ledger.raiseLimit(name, Infinity);
  const found = [];
  for (const [week, [hours, mood]] of values.entries()) {
    found.push(await said(asked, ledger, WEEKS[week]!, hours, mood));
  }
  return found;
}

test("only what a spell begins with decides; each spell is charged once", async () => {
  const one = await life([[1, "good"], [1, "good"], [20, "bad"], [20, "bad"]]);
  const other = await life([[1, "good"], [23, "bad"], [20, "bad"], [2, "so-so"]]);
  assert.deepEqual(one, other);
  assert.deepEqual(
    one.map(({ cost }) => cost > 0n),
    [true, false, true, false],
  );
});

test("a report that is made again follows from what is kept, not from the value", async () => {
  const [asked, ledger] = [await campaign(), new Ledger(new MemoryStore())];
  for (const name of ["report", "collector", "lifetime"] as const) await ledger.raiseLimit(name, Infinity);
  await said(asked, ledger, WEEKS[0]!, 3, "good");
  const secret = await ledger.secret();
  const kept = (name: string) => ledger.kept(name);
  const texts = new Set<string>();
  for (const mood of ["good", "so-so", "bad"]) {
    const answers = encode(asked, { hours: 3, mood });
    const made = await draw(asked, answers, { secret, origin: ORIGIN, round: WEEKS[1], kept });
    texts.add(new TextDecoder().decode(made.bytes));
  }
  assert.equal(texts.size, 1);
});

test("there is no report outside of the campaign's periods", async () => {
  const asked = await campaign();
  const answers = encode(asked, { hours: 3, mood: "bad" });
  for (const round of ["2026-W50", "2027-W09"]) {
    const options = { secret: new Uint8Array(32), origin: ORIGIN, round };
    await assert.rejects(draw(asked, answers, options), /does not ask in/);
  }
});

test("what is kept is hidden", async () => {
  const asked = await campaign();
  const answers = encode(asked, { hours: 3, mood: "bad" });
  const seen = new Set<string>();
  for (let who = 0; who < 20; who++) {
    const secret = new Uint8Array(32).fill(who);
    const { memos } = await draw(asked, answers, { secret, origin: ORIGIN, round: WEEKS[0] });
    for (const { answer } of memos) seen.add(answer!);
  }
  assert.equal(seen.size, 40);
});
