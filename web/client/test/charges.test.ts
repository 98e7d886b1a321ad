/** What a device charges and keeps, and the level that a lot gives it, are what the shared vectors say. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { exact, sum, written } from "../src/cost.js";
import { encode } from "../src/answers.js";
import { Ledger } from "../src/ledger.js";
import { draw } from "../src/report.js";
import { MemoryStore } from "../src/store.js";
import { Keyed, drawn } from "../src/words.js";
import { ORIGIN, read } from "./documents.js";
import { vectors } from "./vectors.js";

const bytes = (hex: string) => Uint8Array.from(hex.match(/../g)!, (octet) => parseInt(octet, 16));
const charges: Record<string, any[]> = vectors("keyed/charges.json");

for (const [name, people] of Object.entries(charges)) {
  test(`a ledger is charged what the file says: ${name}`, async () => {
    const file = vectors(`reports/${name}.json`);
    const campaign = await read(new TextEncoder().encode(file.document), name);
    const ledgers = new Map<string, Ledger>();
    const shown = new Map<string, string>();
    for (const [place, wanted] of people.entries()) {
      const { secret, answers, begun = answers, level, round } = file.people[place];
      const ledger = ledgers.get(secret) ?? new Ledger(new MemoryStore());
      ledgers.set(secret, ledger);
      for (const limit of ["report", "collector", "lifetime"] as const) {
        await ledger.raiseLimit(limit, Infinity);
      }
      const kept = (memo: string) => ledger.kept(memo);
      const options = { secret: bytes(secret), origin: ORIGIN, round, level: level ?? undefined };
      const made = await draw(campaign, encode(campaign, begun), { ...options, kept });
      assert.equal(made.report.id, wanted.id);
      assert.deepEqual(made.charges, wanted.entries);
      const known = await ledger.store.read((book) => book.paid.map((paid) => paid.name));
      const fresh = wanted.permanent.filter((memo: any) => !campaign.spells || !known.includes(memo.name));
      const found = made.memos.map(({ name, charge }) => ({ name, charge }));
      const plain = fresh.map(({ name, charge }: any) => ({ name, charge }));
      assert.deepEqual(found, plain);
      for (const { name, kept: hidden } of fresh) {
        if (hidden) shown.set(name, hidden);
      }
      if (campaign.spells) {
        // What another device has hidden is shown, and says the same.
        const other = async (memo: string) => shown.get(memo);
        const again = await draw(campaign, encode(campaign, begun), { ...options, kept: other });
        assert.deepEqual([again.report, again.memos], [made.report, []]);
      }
      const cost = sum(made.charges.map(exact));
      const epsilon = exact(campaign.epsilon);
      const charged = await ledger.charge({
        ...{ origin: ORIGIN, campaign: name, digest: campaign.digest, purpose: "", round },
        cost: campaign.repeated || cost < epsilon ? cost : epsilon,
        memos: made.memos.map((memo) => ({ ...memo, cost: exact(memo.charge) })),
        ...{ limit: Infinity, rounds: 100, report: "", reportId: made.report.id },
      });
      assert.equal(written(charged.cost), wanted.cost);
    }
  });
}

test("a lot gives the level that the file says", async () => {
  for (const { secret, origin, digest, levels, level } of vectors("keyed/levels.json")) {
    const words = new Keyed(bytes(secret), [origin, digest]).stream("level");
    assert.equal(await drawn([words], (own) => own!.below(levels)), level);
  }
});
