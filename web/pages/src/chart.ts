/** Charts as SVG: they follow light and dark, print sharp, and are what is downloaded.
 *
 *     onScale   a mean with its interval on the attribute's scale
 *     bars      shares with intervals
 *     shape     a fitted distribution, without intervals
 *     sequence  a confidence sequence over the reports received
 *     trend     figures by period, each with its interval
 *
 * Scales and paths are d3's; nothing here has a style of its own: the style sheet has all colours.
 */

import { scaleLinear } from "d3-scale";
import { area, line } from "d3-shape";
import type { Bin, Running, TrendLine, TrendPoint } from "./live.js";
import { draw } from "./page.js";
import { compact, percent } from "./say.js";

const WIDTH = 360;
const TICKS = 11; // the height of their text

function chart(height: number, label: string, ...parts: SVGElement[]): SVGElement {
  const attributes = {
    viewBox: `0 0 ${WIDTH} ${height}`,
    class: "chart",
    role: "img",
    "aria-label": label,
  };
  return draw("svg", attributes, ...parts);
}

function text(x: number, y: number, words: string, name: string, anchor = "start"): SVGElement {
  return draw("text", { x: round(x), y: round(y), class: name, "text-anchor": anchor }, words);
}

function segment(x1: number, y1: number, x2: number, y2: number, name: string): SVGElement {
  return draw("line", { x1: round(x1), y1: round(y1), x2: round(x2), y2: round(y2), class: name });
}

function box(x: number, y: number, width: number, height: number, name: string): SVGElement {
  return draw("rect", {
    x: round(x),
    y: round(y),
    width: round(Math.max(width, 0)),
    height,
    class: name,
  });
}

function round(place: number): number {
  return Math.round(place * 10) / 10;
}

/** An interval with its ends. */
function whisker(low: number, high: number, y: number, size: number): SVGElement {
  const d = `M${round(low)} ${y - size}v${2 * size}M${round(low)} ${y}H${round(high)}M${round(high)} ${y - size}v${2 * size}`;
  return draw("path", { d, class: "whisker" });
}

// --- a mean on its scale -------------------------------------------------------------------------

export interface OnScale {
  readonly label: string;
  readonly from: number;
  readonly to: number;
  readonly value: number;
  readonly once: readonly [number, number] | null;
  readonly always: readonly [number, number] | null;
  readonly truth: number | null;
}

export function onScale({ label, from, to, value, once, always, truth }: OnScale): SVGElement {
  const x = scaleLinear([from, to], [6, WIDTH - 6]).clamp(true);
  const format = x.tickFormat(6);
  const parts = [box(6, 20, WIDTH - 12, 1, "sum")];
  if (always)
    parts.push(box(x(always[0]), 10, Math.max(2, x(always[1]) - x(always[0])), 20, "band"));
  if (once) parts.push(whisker(x(once[0]), x(once[1]), 20, 6));
  parts.push(draw("circle", { cx: round(x(value)), cy: 20, r: 4, class: "point" }));
  if (truth !== null) parts.push(segment(x(truth), 4, x(truth), 36, "truth"));
  const inner = x.ticks(6).filter((tick) => x(tick) > 40 && x(tick) < WIDTH - 40);
  for (const tick of [from, ...inner, to])
    parts.push(text(x(tick), 48, format(tick), "tick", anchor(x(tick))));
  return chart(52, label, ...parts);
}

/** Texts at the ends stay inside. */
function anchor(x: number): string {
  return x < 20 ? "start" : x > WIDTH - 20 ? "end" : "middle";
}

// --- shares --------------------------------------------------------------------------------------

export interface Bar {
  readonly label: string;
  readonly value: number;
  readonly low: number | null;
  readonly high: number | null;
  readonly always: readonly [number, number] | null;
  readonly truth: number | null;
}

const ROW = 36;
const LETTERS = 46;

export function bars(label: string, rows: readonly Bar[], decimals: number): SVGElement {
  const ends = rows.flatMap(({ value, low, high, always }) => [
    value,
    low ?? value,
    high ?? value,
    ...(always ?? []),
  ]);
  const x = scaleLinear([Math.min(0, ...ends), Math.max(0.01, ...ends)], [4, WIDTH - 4])
    .nice(4)
    .clamp(true);
  const height = rows.length * ROW;
  const parts = rows.flatMap((row, place) => bar(row, place * ROW, x, decimals));
  const format = x.tickFormat(4, "%");
  for (const tick of x.ticks(4)) {
    parts.unshift(segment(x(tick), 18, x(tick), height, "axis"));
    parts.push(text(x(tick), height + 14, format(tick), "tick", anchor(x(tick))));
  }
  return chart(height + 20, label, ...parts);
}

function bar(row: Bar, top: number, x: (share: number) => number, decimals: number): SVGElement[] {
  const { label, value, low, high, always, truth } = row;
  const short = label.length > LETTERS ? `${label.slice(0, LETTERS - 1)}…` : label;
  const name = text(4, top + 14, short, "name");
  if (short !== label) name.append(draw("title", {}, label));
  const parts = [name, text(WIDTH - 4, top + 14, percent(value, decimals), "name", "end")];
  const [start, end] = [Math.min(x(0), x(value)), Math.max(x(0), x(value))];
  const middle = top + 25;
  if (always) parts.push(box(x(always[0]), top + 18, x(always[1]) - x(always[0]), 14, "band"));
  parts.push(box(start, top + 20, end - start, 10, "bar"));
  if (low !== null && high !== null) parts.push(whisker(x(low), x(high), middle, 4));
  if (truth !== null) parts.push(segment(x(truth), top + 16, x(truth), top + 34, "truth"));
  return parts;
}

// --- a distribution ------------------------------------------------------------------------------

export function shape(label: string, bins: readonly Bin[], truth: number | null): SVGElement {
  const [from, to] = [bins[0]!.low, bins.at(-1)!.high];
  const x = scaleLinear([from, to], [4, WIDTH - 4]);
  const y = scaleLinear(
    [0, Math.max(...bins.map((bin) => bin.share / (bin.high - bin.low)))],
    [90, 6],
  );
  const format = x.tickFormat(6);
  const parts = bins.map((bin) => {
    const top = y(bin.share / (bin.high - bin.low));
    return box(x(bin.low) + 0.5, round(top), x(bin.high) - x(bin.low) - 1, round(90 - top), "bar");
  });
  parts.push(segment(4, 90, WIDTH - 4, 90, "axis"));
  if (truth !== null) parts.push(segment(x(truth), 4, x(truth), 90, "truth"));
  for (const tick of x.ticks(6))
    parts.push(text(x(tick), 105, format(tick), "tick", anchor(x(tick))));
  return chart(110, label, ...parts);
}

// --- over time -----------------------------------------------------------------------------------

export interface Sequence {
  readonly label: string;
  readonly looks: readonly Running[];
  /** How far values can be. */
  readonly within: readonly [number, number];
  readonly truth: number | null;
  readonly unit: (value: number) => string;
  readonly axis: string;
  /** Whether the scale begins at 0. */
  readonly zero?: boolean;
}

const [LEFT, TOP, BOTTOM] = [44, 8, 128];

/** The first looks are wide: the chart shows what the later ones need. */
export function sequence(given: Sequence): SVGElement {
  const { label, looks, within, truth, unit, axis, zero } = given;
  const later = looks.slice(Math.floor(looks.length / 8));
  const lowest = Math.min(...later.map((one) => one.low), truth ?? Infinity, zero ? 0 : Infinity);
  const least = Math.max(within[0], lowest);
  const most = Math.min(within[1], Math.max(...later.map((one) => one.high), truth ?? -Infinity));
  const last = looks.at(-1)!;
  const x = scaleLinear([looks.length > 1 ? looks[0]!.n : 0, last.n], [LEFT, WIDTH - 6]);
  const y = scaleLinear([least, most], [BOTTOM, TOP]).nice(4).clamp(true);
  const band = area<Running>(
    (one) => round(x(one.n)),
    (one) => round(y(one.low)),
    (one) => round(y(one.high)),
  );
  const path = line<Running>(
    (one) => round(x(one.n)),
    (one) => round(y(one.value)),
  );
  const parts: SVGElement[] = [];
  for (const tick of y.ticks(4)) {
    parts.push(segment(LEFT, y(tick), WIDTH - 6, y(tick), "axis"));
    parts.push(text(LEFT - 6, y(tick) + 4, unit(tick), "tick", "end"));
  }
  const [from, to] = [y(last.high), y(last.low)];
  if (looks.length === 1) parts.push(box(x(last.n) - 5, round(from), 10, round(to - from), "band"));
  parts.push(draw("path", { d: band([...looks]) ?? "", class: "band" }));
  parts.push(draw("path", { d: path([...looks]) ?? "", class: "line" }));
  parts.push(
    draw("circle", { cx: round(x(last.n)), cy: round(y(last.value)), r: 3.5, class: "point" }),
  );
  if (truth !== null) parts.push(segment(LEFT, y(truth), WIDTH - 6, y(truth), "truth"));
  const ticks = x.ticks(4);
  for (const tick of ticks)
    parts.push(text(x(tick), BOTTOM + TICKS + 5, compact(tick), "tick", anchor(x(tick))));
  parts.push(text(WIDTH - 6, BOTTOM + 2 * TICKS + 8, axis, "tick", "end"));
  return chart(BOTTOM + 34, label, ...parts);
}

// --- by period -----------------------------------------------------------------------------------

export interface Trend {
  readonly label: string;
  /** All periods that are shown, in their order. */
  readonly periods: readonly string[];
  readonly lines: readonly TrendLine[];
  readonly unit: (value: number) => string;
}

const [RIGHT, DEEP, GAP] = [96, 190, 13];
/** Of a label at the end of its line. */
const SHORT = 14;

/** A line for each figure, with its name at the end, and the interval of each period. */
export function trend({ label, periods, lines, unit }: Trend): SVGElement {
  const all = lines.flatMap(({ points }) => points.flatMap((one) => [...ends(one), one.value]));
  const x = scaleLinear([0, Math.max(1, periods.length - 1)], [LEFT + 6, WIDTH - RIGHT]);
  const y = scaleLinear([Math.min(...all), Math.max(...all)], [DEEP, TOP]).nice(4);
  const place = (one: TrendPoint) => x(periods.indexOf(one.period));
  const parts: SVGElement[] = [];
  for (const tick of y.ticks(5)) {
    parts.push(segment(LEFT, y(tick), WIDTH - RIGHT + 6, y(tick), "axis"));
    parts.push(text(LEFT - 6, y(tick) + 4, unit(tick), "tick", "end"));
  }
  const band = area<TrendPoint>(
    (one) => round(place(one)),
    (one) => round(y(ends(one)[0])),
    (one) => round(y(ends(one)[1])),
  );
  const path = line<TrendPoint>(
    (one) => round(place(one)),
    (one) => round(y(one.value)),
  );
  for (const { points } of lines) {
    parts.push(draw("path", { d: band([...points]) ?? "", class: "band" }));
    parts.push(draw("path", { d: path([...points]) ?? "", class: "line" }));
    for (const one of points) {
      const [low, high] = ends(one);
      parts.push(segment(place(one), y(low), place(one), y(high), "whisker"));
      const dot = { cx: round(place(one)), cy: round(y(one.value)), r: 2.5, class: "point" };
      parts.push(draw("circle", dot));
    }
  }
  parts.push(...names(lines, (one) => y(one.value)));
  const step = Math.max(1, Math.ceil(periods.length / 4));
  periods.forEach((name, i) => {
    if (i % step === 0)
      parts.push(text(x(i), DEEP + TICKS + 5, name, "tick", anchor(x(i) - LEFT + 14)));
  });
  return chart(DEEP + 24, label, ...parts);
}

/** The names of lines where they end; those that would lie on each other are moved apart. */
function names(lines: readonly TrendLine[], y: (one: TrendPoint) => number): SVGElement[] {
  const placed = lines
    .map(({ item, points }) => ({ item, y: y(points.at(-1)!) }))
    .sort((one, other) => one.y - other.y);
  placed.forEach((one, i) => {
    if (i) one.y = Math.max(one.y, placed[i - 1]!.y + GAP);
  });
  return placed.map(({ item, y: at }) => {
    const short = item.length > SHORT ? `${item.slice(0, SHORT - 1)}…` : item;
    const name = text(WIDTH - RIGHT + 10, at + 4, short, "tick");
    if (short !== item) name.append(draw("title", {}, item));
    return name;
  });
}

function ends({ value, low, high }: TrendPoint): [number, number] {
  return [low ?? value, high ?? value];
}
