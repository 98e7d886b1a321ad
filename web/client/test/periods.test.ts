import assert from "node:assert/strict";
import { test } from "node:test";

import { nameOf, numberOf, openAt, periodOf } from "../src/periods.js";

const DAY = 86_400_000;

test("periods have the numbers and names of Python", () => {
  const day = new Date("2026-11-18T23:59:59Z");
  assert.deepEqual(
    (["day", "week", "month"] as const).map((every) => periodOf(every, day)),
    [20775, 2968, 682],
  );
  assert.equal(nameOf("week", 2968), "2026-W47");
  assert.equal(nameOf("month", 682), "2026-11");
  assert.equal(nameOf("week", numberOf("week", "2024-12-31")), "2025-W01");
  assert.equal(numberOf("week", "2026-W53"), numberOf("week", "2027-01-03"));
  assert.equal(numberOf("month", "2026-11"), numberOf("month", "2026-11-18T12:00:00Z"));
});

test("each period has one name, and follows the one before", () => {
  for (const every of ["day", "week", "month"] as const) {
    let last = periodOf(every, new Date(0));
    for (let day = 1; day < 29_300; day++) {
      const period = periodOf(every, new Date(day * DAY));
      assert.ok(period === last || period === last + 1);
      if (period !== last) assert.equal(numberOf(every, nameOf(every, period)), period);
      last = period;
    }
  }
});

test("what names no period is refused", () => {
  for (const text of ["", "x", "2026-W54", "2027-W53", "2026-W00", "2026", "1960-W01"]) {
    assert.throws(() => numberOf("week", text), { kind: "parameter" });
  }
});

test("a period stays open for a while after its end, and opens for clocks that are ahead", () => {
  const wednesday = new Date("2026-11-18T12:00:00Z");
  assert.deepEqual(openAt("week", wednesday, null, 1), [2967, 2968]);
  assert.deepEqual(openAt("week", new Date("2026-11-22T12:00:00Z"), null, 1), [2967, 2969]);
  assert.deepEqual(openAt("week", wednesday, new Date("2026-11-17T00:00:00Z"), 5), [2968, 2968]);
});
