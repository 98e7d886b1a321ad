/** Documents by collectors who mean harm: each is refused, or read and drawn from, within a moment.
 * Before, each of them held a page for seconds or for good. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { exp, larger, logAbove } from "../src/exponential.js";
import { type Json, type Table, written } from "../src/form.js";
import type { Campaign } from "../src/types.js";
import { draw } from "../src/report.js";
import { Keyed, type Words, drawn } from "../src/words.js";
import { ORIGIN, around, read } from "./documents.js";

const WHOLE = 2 ** 52;
const REFUSED = { name: "MurmurationError", kind: "format" };

function category(name: string, k: number): Table {
  const labels = Array.from({ length: k }, (_, i) => `l${i}`);
  return { name, kind: "category", labels, outside: "spread" };
}

const GRR = {
  mechanism: "grr",
  parameters: { epsilon: 1, k: 2 },
  law: { truth: WHOLE / 2 + 2 ** 48, lie: WHOLE / 2 - 2 ** 48 },
};

/** The text of a collection about these attributes, with a cell for each. */
function text(attributes: Table[], cells: Table[], more: Table = {}): string {
  const { epsilon = 1, strategy = "split", ...others } = more;
  const named = cells.map((cell, i) => ({ attributes: [i], ...cell }));
  const head = { wire: 1, campaign: "x", epsilon, strategy, ...others };
  return written({ ...head, attributes, cells: named } as Json);
}

/** Read a document, in less than so many milliseconds of this thread. */
async function quickly(bytes: Uint8Array, most = 1000): Promise<Campaign> {
  const start = performance.now();
  try {
    return await read(bytes, "x");
  } finally {
    const took = performance.now() - start;
    assert.ok(took < most, `it took ${Math.round(took)} ms`);
  }
}

const HONEST = text([category("a", 2)], [GRR]);

test("an honest document of this kind is read", async () => {
  assert.equal((await quickly(around(HONEST))).name, "x");
});

// --- a loss next to nothing ---------------------------------------------------------------------

test("the logarithm of a ratio next to 1 is a few steps away", () => {
  for (const power of [10n, 52n, 80n, 104n, 300n, 1000n, 1100n, 5000n]) {
    const below = 1n << power;
    for (const ratio of [[below + 1n, below], [below, below - 1n]] as const) {
      const start = performance.now();
      const found = logAbove(ratio);
      assert.ok(performance.now() - start < 100);
      assert.ok(found > 0 && !larger(ratio, exp(found)));
      if (power <= 1000n) assert.ok(Math.abs(found * 2 ** Number(power) - 1) < 1e-3);
    }
  }
  assert.equal(logAbove([1n, 1n]), 0);
});

test("a level with next to no budget is refused at once", async () => {
  const [truth, lie] = [WHOLE / 2 + 1, WHOLE / 2 - 1];
  const cell = {
    ...{ level: 0, mechanism: "memoised", parameters: { epsilon: 1, k: 2, permanent: 1 } },
    law: { permanent: { truth, lie }, keep: truth, swap: lie },
  };
  for (const factor of [5e-324, 1e-30, 0.0009]) {
    const bytes = around(text([category("a", 2)], [cell], { levels: [["low", factor]] }));
    await assert.rejects(quickly(bytes), REFUSED);
  }
});

// --- times --------------------------------------------------------------------------------------

const NO_TIMES = [
  `1 Jan 2020 00:00 (${"T".repeat(150_000)})`,
  `2026-01-01T00:00:00.${"0".repeat(1e6)}Z`,
  ...["2026-01-01", "2026-01-01T00:00:00", "2026-02-30T00:00:00Z", "2026-01-01T24:00:00Z"],
  ...["0000-01-01T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00+24:00"],
  ...["2026-01-01T00:00:00Z\n", "+02026-01-01T00:00:00Z", "January 1, 2026 T Z", ""],
];

test("a time is RFC 3339, and looked at in one go", async () => {
  for (const opens of NO_TIMES) await assert.rejects(quickly(around(HONEST, { opens })), REFUSED);
  for (const opens of [7, true, ["2026-01-01T00:00:00Z"], {}])
    await assert.rejects(quickly(around(HONEST, { opens })), REFUSED);
  for (const opens of ["1970-01-01T00:00:00Z", "2024-02-29T23:59:59.123456-23:59"])
    assert.deepEqual((await quickly(around(HONEST, { opens }))).opens, new Date(opens));
});

// --- drawing ------------------------------------------------------------------------------------

/** A subset law whose sets have so many members; how often they hold the own one is made to fit. */
function subset(k: number, size: number, rate: Table): Table {
  const holds = Math.floor((WHOLE * size) / k);
  return {
    ...{ mechanism: "subset", parameters: { epsilon: 0.1, k } },
    law: { holds, size, level: 0, digits: 0, ...rate },
  };
}

test("sets that would be drawn without end are refused", async () => {
  const k = 1 << 15;
  const laws = [
    subset(k, k - 1, {}),
    subset(k, k >> 1, {}),
    subset(k, k >> 1, { level: 1, digits: 1 }),
    subset(k, 15_566, {}),
    subset(k, 15_566, { level: 974, digits: 11 }),
  ];
  for (const law of laws)
    await assert.rejects(quickly(around(text([category("a", k)], [law]))), REFUSED);
  const fair = around(text([category("a", k)], [subset(k, 15_566, { level: 967, digits: 11 })]));
  const campaign = await quickly(fair);
  const start = performance.now();
  const { report } = await draw(campaign, [3], { secret: new Uint8Array(32), origin: ORIGIN });
  assert.ok(report.entries[0]!.length === 1 + k / 8 && performance.now() - start < 2000);
});

test("words end", async () => {
  const keyed = new Keyed(new Uint8Array(32), []).stream("x");
  let most = 0;
  const counted = (n: number) => ((most = Math.max(most, n)), keyed(n));
  const greedy = (own?: Words): void => {
    for (;;) own!.word();
  };
  await assert.rejects(drawn([counted], greedy), { name: "MurmurationError", kind: "promise" });
  assert.ok(most <= 1 << 19);
});
