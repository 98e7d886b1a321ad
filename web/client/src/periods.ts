/** Periods of a question that comes back: days, weeks or months (UTC), each a number and a name.
 *
 *     day     2026-11-18   days since 1970-01-01
 *     week    2026-W47     Monday to Sunday, as ISO 8601 names them; that of 1970-01-01 is 0
 *     month   2026-11      months since January 1970
 */

import { MurmurationError } from "./errors.js";
import type { PERIODS } from "./protocol.js";

export type Every = (typeof PERIODS)[number];

const DAY = 86_400_000;

/** Return the number of the period that a moment lies in. */
export function periodOf(every: Every, moment: Date): number {
  if (every === "month") return (moment.getUTCFullYear() - 1970) * 12 + moment.getUTCMonth();
  const days = Math.floor(moment.getTime() / DAY);
  return every === "day" ? days : Math.floor((days + 3) / 7);
}

/** Return the name of a period: the turn of its words and its id. */
export function nameOf(every: Every, period: number): string {
  if (every === "month") return new Date(Date.UTC(1970, period)).toISOString().slice(0, 7);
  if (every === "day") return new Date(period * DAY).toISOString().slice(0, 10);
  const thursday = new Date(7 * period * DAY); // of this week: its year is the week's
  const year = thursday.getUTCFullYear();
  const week = Math.floor((thursday.getTime() - Date.UTC(year, 0)) / DAY / 7) + 1;
  return `${String(year).padStart(4, "0")}-W${String(week).padStart(2, "0")}`;
}

/** Return the number of a period by its name, or by a date or a moment in it. */
export function numberOf(every: Every, text: string): number {
  const [, year, week] = /^(\d{4})-W(\d\d)$/.exec(text) ?? [];
  const named =
    every === "week" && year !== undefined
      ? periodOf("week", new Date(Date.UTC(Number(year), 0, 4))) + Number(week) - 1
      : periodOf(every, new Date(every === "month" && text.length === 7 ? `${text}-01` : text));
  const whole = /^\d{4}-\d\d-\d\d(T|$)/.test(text) && Number.isInteger(named) && named >= 0;
  if (whole || (named >= 0 && nameOf(every, named) === text)) return named;
  throw new MurmurationError("parameter", `${text} names no ${every}. Nothing was sent.`);
}

/** Return the first and the last period of which a collector takes reports at that moment: none
 * that begins more than a day from now, nor one that is over for more than `grace` periods. */
export function openAt(
  every: Every,
  now: Date,
  opens: Date | null,
  grace: number,
): [first: number, last: number] {
  const first = Math.max(0, periodOf(every, now) - grace, opens ? periodOf(every, opens) : 0);
  return [first, periodOf(every, new Date(now.getTime() + DAY))];
}
