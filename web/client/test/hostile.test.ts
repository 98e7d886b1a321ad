/** Documents by collectors who mean harm: each is refused, or read and drawn from, within a moment.
 * Before, each of them held a page for seconds or for good. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { exp, larger, logAbove } from "../src/exponential.js";
import { type Json, type Table, written } from "../src/form.js";
import type { Campaign } from "../src/types.js";
import { draw } from "../src/report.js";
import { Words, drawn } from "../src/words.js";
import { ORIGIN, around, read } from "./documents.js";

const WHOLE = 2 ** 52;
const REFUSED = { name: "MurmurationError", kind: "format" };

function category(name: string, k: number): Table {
  const labels = Array.from({ length: k }, (_, i) => `l${i}`);
  return { name, kind: "category", labels, outside: "spread" };
}

function number(name: string, kind?: string): Table {
  return { name, ...(kind && { kind }), low: 0, high: 1, outside: "clamp" };
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

/** Milliseconds of a processor: others may compute at the same time. */
function used(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** Read a document, in less than so many milliseconds of a processor. */
async function quickly(bytes: Uint8Array, most = 1000): Promise<Campaign> {
  const start = used();
  try {
    return await read(bytes, "x");
  } finally {
    const took = used() - start;
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
      const start = used();
      const found = logAbove(ratio);
      assert.ok(used() - start < 100);
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
  const start = used();
  const { report } = await draw(campaign, [3], { secret: new Uint8Array(32), origin: ORIGIN });
  assert.ok(report.entries[0]!.length === 1 + k / 8 && used() - start < 2000);
});

test("words end", async () => {
  let most = 0;
  const counted = async (n: number): Promise<Words> => {
    most = Math.max(most, n);
    return new Words(new Uint8Array(n * 8));
  };
  const greedy = (own?: Words): void => {
    for (;;) own!.word();
  };
  await assert.rejects(drawn([counted], greedy), { name: "MurmurationError", kind: "promise" });
  assert.ok(most <= 1 << 19);
});

// --- ranges -------------------------------------------------------------------------------------

/** A law of so many ranges and symbols; `weight` makes the rows. */
function graded(ranges: number, symbols: number, semantics: Json, weight: (j: number) => number) {
  const row = Array.from({ length: symbols }, (_, j) => weight(j));
  const steps = Array.from({ length: ranges + 1 }, (_, i) => i / ranges);
  const epsilon = Array.isArray(semantics)
    ? semantics.map((one, g) => (one as Json[])[g]!)
    : Array<number>(ranges).fill(1);
  return {
    mechanism: "graded-bit",
    parameters: { epsilon, edges: steps.map((step) => 2 * step - 1), semantics },
    law: {
      weights: steps.map(() => row),
      values: row.map(() => 0),
      places: steps.map((step) => step * WHOLE),
      jumps: [],
    },
  };
}

test("ranges are compared in a moment, or not at all", async () => {
  const one = [number("a", "graded")];
  const wide = around(text(one, [graded(64, 32_768, "max", () => 1)]));
  await assert.rejects(quickly(wide), { ...REFUSED, message: /comparisons/ });
  assert.equal((await quickly(around(text(one, [graded(64, 2048, "max", () => 1)])), 2000)).most[0], 1);
});

test("matrices of budgets that are all different are few", async () => {
  let budget = 1;
  const matrix = (): number[][] => {
    const rows = Array.from({ length: 64 }, () => Array<number>(64).fill(0));
    for (let g = 0; g < 64; g++)
      for (let h = g; h < 64; h++) rows[g]![h] = rows[h]![g] = budget += 1e-5;
    return rows;
  };
  const asked = (many: number) => {
    const laws = Array.from({ length: many }, () => graded(64, 2, matrix(), () => 1));
    const questions = laws.map((_, i) => number(`a${i}`, "graded"));
    return around(text(questions, laws, { epsilon: 20, strategy: "sample" }));
  };
  assert.equal((await quickly(asked(62), 3000)).cells.length, 62);
  await assert.rejects(quickly(asked(63), 500), { ...REFUSED, message: /comparisons/ });
});

// --- texts --------------------------------------------------------------------------------------

test("names, labels and markers are short, before they are put into a normal form", async () => {
  const asked = (change: Table) =>
    text([{ ...category("a", 2), ...change }], [GRR]);
  const long = `x${"\u0301\u0316".repeat(60_000)}`;
  const missing = { missing: true, markers: [long] };
  for (const change of [{ labels: ["l0", long] }, { name: long }, { outside: long }, missing])
    await assert.rejects(quickly(around(asked(change))), { ...REFUSED, message: /500 characters/ });
  const level = { ...GRR, level: 0 };
  const named = text([category("a", 2)], [level], { levels: [[long, 1]] });
  await assert.rejects(quickly(around(named)), { ...REFUSED, message: /500 characters/ });
  const most = "\u{1f600}".repeat(500); // code points, not halves of them
  const { questions } = await quickly(around(asked({ labels: ["l0", most] })));
  assert.equal(questions[0]!.labels[1], most);
  await assert.rejects(quickly(around(asked({ labels: ["l0", `${most}x`] }))), REFUSED);
});

// --- laws inside laws ---------------------------------------------------------------------------

/** Laws around laws around a table, as deep as that. */
function nested(depth: number, symbols: number): Table {
  const box = { epsilon: 1, d: 1, domains: [0] };
  const row = Array<number>(symbols).fill(1);
  const table = { weights: [row, row], values: row.map(() => 0) };
  const inner = { mechanism: "duchi", parameters: { epsilon: 1 }, law: table };
  let law: Table = {
    mechanism: "sampled",
    parameters: { ...box, sample: 1, numeric: "", categorical: "", shares: [] },
    law: { sample: 1, ends: [], attributes: [0], inner: [inner] },
  };
  for (let i = 0; i < depth; i++) {
    const parameters = { ...box, people: 1 };
    law = { mechanism: "hybrid-composition", parameters, law: { parts: [law] } };
  }
  return law;
}

test("no law with laws inside it is inside another", async () => {
  const read = (depth: number) =>
    quickly(around(text([number("a")], [nested(depth, 1 << 17)], { strategy: "together" })));
  await assert.rejects(read(1), { ...REFUSED, message: /inside another/ });
  const deep = JSON.stringify(nested(300, 1 << 18));
  const cells = `"cells":[{"attributes":[0],${deep.slice(1)}]`;
  const long = text([number("a")], [], { strategy: "together" }).replace('"cells":[]', cells);
  await assert.rejects(quickly(around(long), 500), { ...REFUSED, message: /without end/ });
  assert.equal((await read(0)).cells[0]!.law.name, "sampled");
});

// --- keys and words -----------------------------------------------------------------------------

test("keys are compared one by one: a key with blanks or commas is no list of keys", async () => {
  const law = {
    mechanism: "bassily-smith",
    parameters: { epsilon: 1, k: 2, "people,beta,seed": "device 4711" },
    law: { truth: WHOLE / 2, lie: WHOLE / 2, rows: 2, seed: 0 },
  };
  await assert.rejects(quickly(around(text([category("a", 2)], [law]))), REFUSED);
});

test("two levels of one name are refused", async () => {
  const cells = [0, 1].map((level) => ({ attributes: [0], level, ...GRR }));
  const levels = [["a", 1], ["a", 1]];
  const twice = text([category("a", 2)], cells, { levels });
  await assert.rejects(quickly(around(twice)), { ...REFUSED, message: /one name/ });
});

test("no error repeats a collector's words", async () => {
  const EVIL = "<img src=x onerror=alert(1)>";
  const two = category("a", 2);
  const texts = [
    text([two], [{ ...GRR, mechanism: EVIL }]),
    text([two], [{ ...GRR, [EVIL]: 1 }]),
    text([two], [GRR], { strategy: EVIL }),
    text([two], [GRR], { accept_loss: EVIL }),
    text([{ ...two, outside: EVIL }], [GRR]),
    text([{ ...two, name: EVIL, kind: EVIL }], [GRR]),
    text([{ ...two, name: EVIL, labels: ["x"] }], [GRR]),
    HONEST.replace('"wire":1', `"wire":"${EVIL}"`),
    HONEST.replace('"campaign":"x"', `"campaign":"${EVIL}"`),
  ];
  const outside = [{ format: EVIL }, { upload: EVIL }, { opens: EVIL }];
  const documents = [...texts.map((one) => around(one)), ...outside.map((one) => around(HONEST, one))];
  for (const bytes of documents)
    await assert.rejects(quickly(bytes), (error: Error) => !error.message.includes("img"));
});

// --- terms --------------------------------------------------------------------------------------

test("nothing is asked for figures about fewer people than 100", async () => {
  await assert.rejects(quickly(around(HONEST, { cohort: 99 })), REFUSED);
  assert.equal((await quickly(around(HONEST, { cohort: 100 }))).cohort, 100);
});

test("levels by lot are for one round: a level would name a device in all of them", async () => {
  const [truth, lie] = [WHOLE / 2 + 2 ** 48, WHOLE / 2 - 2 ** 48];
  const cell = {
    ...{ level: 0, mechanism: "memoised", parameters: { epsilon: 1, k: 2, permanent: 2 } },
    law: { permanent: { truth, lie }, keep: truth, swap: lie },
  };
  const lot = { levels: [["one", 1]], chosen: "by lot", limit: 4 };
  const asked = (more: Table) => around(text([category("a", 2)], [cell], { ...lot, ...more }));
  assert.equal((await quickly(asked({}))).chosen, "by lot");
  await assert.rejects(quickly(asked({ rounds: 9 })), { kind: "promise", message: /by lot/ });
});
