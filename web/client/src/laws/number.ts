/** Laws for numbers: a grid, and a table with a row of integer weights for each of its points.
 *
 * The number x becomes X = (x+1) 2^51. A first word rounds it at random to one end of its cell of the
 * grid; a second word draws a symbol from that point's row.
 */

import { type Json, type Table, budget, require, wholes } from "../form.js";
import { apart, largest, lossOf, most, pairwise } from "../loss.js";
import type { Answer, Chances, Law, Ratio } from "../types.js";
import { WHOLE, type Words } from "../words.js";
import { type Published, bytesFor, law, octets } from "./shared.js";

const HALF = WHOLE / 2;
const MOST_RANGES = 64;

/** X, an integer from 0 to 2^52. */
export function fixedPoint(x: number): number {
  return (x + 3 - 2) * HALF;
}

/** Round to one of a power of two of equal cells: X + dither, cut at the size of a cell. */
export function roundEven(x: number, cells: number, word: number): number {
  const size = WHOLE / cells;
  return Math.floor((fixedPoint(x) + Math.floor(word / cells)) / size);
}

/** Where the points of a grid are. */
interface Grid {
  readonly rows: number;
  round(x: number, word: number): number;
  /** The rows that a value mixes, the lower one first, and how much of the upper one. */
  mixed(x: number): readonly [row: number, part: number];
}

function evenGrid(rows: number): Grid {
  const cells = rows - 1;
  require(cells >= 1 && Number.isInteger(Math.log2(cells)), "a grid has a power of two of cells");
  return {
    rows,
    round: (x, word) => roundEven(x, cells, word),
    mixed: (x) => {
      const place = fixedPoint(x) / (WHOLE / cells);
      const row = Math.min(Math.floor(place), cells - 1);
      return [row, place - row];
    },
  };
}

/** A grid with points at any places; at a jump there are two rows, of the cells below and above. */
class UnevenGrid implements Grid {
  readonly #low: number[];

  constructor(
    readonly places: readonly number[],
    jumps: readonly number[],
  ) {
    const rising = places.every((place, i) => !i || place > places[i - 1]!);
    require(rising && places[0] === 0 && places.at(-1) === WHOLE, "a grid's places go up from -1 to 1");
    const [inner, jumped] = [new Set(places.slice(1, -1)), new Set(jumps)];
    require(jumps.every((jump) => inner.has(jump)), "a grid jumps at its inner places only");
    let more = 0;
    this.#low = places.slice(0, -1).map((place, cell) => cell + (more += Number(jumped.has(place))));
  }

  get rows(): number {
    return this.#low.at(-1)! + 2;
  }

  /** The rows of the cells from one place to another. */
  between(low: number, high: number): number[] {
    const cells = this.#low.filter((_, cell) => this.places[cell]! >= low && this.places[cell]! < high);
    return [...new Set(cells.flatMap((row) => [row, row + 1]))];
  }

  mixed(x: number): readonly [number, number] {
    const X = fixedPoint(x);
    const starts = this.places.slice(1, -1);
    const cell = starts.reduce((count, place) => count + Number(X >= place), 0);
    const start = this.places[cell]!;
    return [this.#low[cell]!, (X - start) / (this.places[cell + 1]! - start)];
  }

  round(x: number, word: number): number {
    const [row, part] = this.mixed(x);
    return row + Number(word + Math.floor(part * WHOLE) >= WHOLE);
  }
}

/** Rows of integer weights, all with the same power of two as total. */
class WeightTable {
  readonly total: number;

  constructor(
    readonly weights: readonly (readonly number[])[],
    readonly values: readonly number[],
    readonly grid: Grid,
  ) {
    const even = weights.every((row) => row.length === values.length);
    require(values.length && even, "a law has rows of weights, one for each of its values");
    require(weights.length === grid.rows, "a law has one row of weights for each point of its grid");
    this.total = total(weights[0]!);
    require(Number.isInteger(Math.log2(this.total)), "the total of weights is a power of two");
    const same = weights.every((row) => total(row) === this.total);
    require(same, "every row of weights has the same total");
  }

  /** The largest, or the least, weight of each symbol in some rows. */
  extreme(choose: (...weights: number[]) => number, rows: readonly number[]): number[] {
    return this.values.map((_, symbol) =>
      rows.reduce((found, row) => choose(found, this.weights[row]![symbol]!), this.weights[rows[0]!]![symbol]!),
    );
  }

  /** The largest ratio between rows of one list and rows of another, for each two of the lists. */
  ratios(ranges: readonly (readonly number[])[]): Ratio[][] {
    const tops = ranges.map((rows) => this.extreme(Math.max, rows));
    const bottoms = ranges.map((rows) => this.extreme(Math.min, rows));
    const found = tops.map((top) => bottoms.map((bottom) => largest(top, bottom)));
    return found.map((row, g) => row.map((ratio, h) => most([ratio, found[h]![g]!])));
  }

  get all(): number[] {
    return this.weights.map((_, row) => row);
  }

  symbol(x: number, first: number, second: number): number {
    return picked(this.weights[this.grid.round(x, first)]!, Math.floor(second / (WHOLE / this.total)));
  }

  /** How likely each symbol is for x. */
  chances(x: number): number[] {
    const [row, part] = this.grid.mixed(x);
    const upper = this.weights[row + 1]!;
    return this.weights[row]!.map((low, j) => (low + part * (upper[j]! - low)) / this.total);
  }
}

/** Add up weights, up to 2^52: beyond, doubles would round. */
function total(row: readonly number[]): number {
  return row.reduce((sum, weight) => {
    require(sum + weight <= WHOLE, "the total of weights is at most 2^52");
    return sum + weight;
  }, 0);
}

/** The number of cumulative weights that are <= the word. All are looked at: time tells nothing. */
export function picked(row: readonly number[], word: number): number {
  let [sum, symbol] = [0, 0];
  for (const weight of row) symbol += Number((sum += weight) <= word);
  return symbol;
}

function tableOf(published: Table): WeightTable {
  const { weights, values, places, jumps } = published;
  require(Array.isArray(weights) && Array.isArray(values), "a law has lists of weights and values");
  const rows = weights.map((row) => wholes(row, WHOLE, "a weight"));
  require(values.every((value) => typeof value === "number"), "values are numbers");
  const grid =
    places === undefined
      ? evenGrid(rows.length)
      : new UnevenGrid(wholes(places, WHOLE, "a place"), wholes(jumps, WHOLE, "a jump"));
  return new WeightTable(rows, values as number[], grid);
}

/** A number, by one budget for all. */
export function number(published: Published): Law {
  const table = tableOf(published.law);
  const promised = budget(published.parameters["epsilon"]);
  return answering(published, table, promised, lossOf(table.ratios([table.all])[0]![0]!, promised));
}

/** A number whose ranges have budgets of their own. */
export function graded(published: Published): Law {
  const table = tableOf(published.law);
  const { rows, budgets } = ranges(published.parameters, table.grid as UnevenGrid);
  return answering(published, table, Math.max(...budgets.flat()), pairwise(table.ratios(rows), budgets));
}

function answering(published: Published, table: WeightTable, budget: number, loss: Law["loss"]): Law {
  const size = bytesFor(table.values.length);
  return {
    ...law(published, { kind: "number" }, budget, loss, size),
    respond: ([x], own) => octets(table.symbol(x!, own.word(), own.word()), size),
    chances: ([x]) => ({ kind: "symbols", probabilities: table.chances(x!), values: table.values }),
  };
}

/** Read the budgets of ranges, and find the rows that the values of each range mix. */
function ranges(parameters: Table, grid: UnevenGrid): { rows: number[][]; budgets: number[][] } {
  const { epsilon, edges, semantics } = parameters;
  require(Array.isArray(epsilon) && epsilon.length, "a graded law has a budget for each range");
  require(epsilon.length <= MOST_RANGES, `there are at most ${MOST_RANGES} ranges`);
  const own = epsilon.map(budget);
  const fits = Array.isArray(edges) && edges.length === own.length + 1;
  require(fits && edges.every((edge) => typeof edge === "number"), "ranges have edges");
  const places = (edges as number[]).map(fixedPoint);
  require(
    places.every((place) => grid.places.includes(place)) &&
      places.every((place, i) => (i ? place > places[i - 1]! : place === 0)) &&
      places.at(-1) === WHOLE,
    "the edges of ranges go up from -1 to 1, and no cell of the grid lies in two ranges",
  );
  const rows = own.map((_, range) => grid.between(places[range]!, places[range + 1]!));
  return { rows, budgets: matrix(semantics ?? "max", own) };
}

/** Return what a value of each range and one of each other range may cost. */
function matrix(semantics: Json, own: readonly number[]): number[][] {
  const choose = semantics === "max" ? Math.max : semantics === "min" ? Math.min : undefined;
  if (choose) return own.map((a) => own.map((b) => choose(a, b)));
  require(Array.isArray(semantics) && semantics.length === own.length, "there is a budget for each pair");
  const rows = semantics.map((row) => (Array.isArray(row) ? row.map(budget) : []));
  const fits = rows.every(
    (row, g) => row.length === own.length && row.every((one, h) => one === (g === h ? own[g] : rows[h]![g])),
  );
  require(fits, "the matrix of budgets is symmetric, with the ranges' own budgets on its diagonal");
  return rows;
}

/** A number or no answer: "none" is one more symbol, which those who have an answer say, too. */
export function orNone(published: Published, withRanges: boolean): Law {
  const { epsilon, settings } = published.parameters;
  const { hush: hushed, none: row, ...inner } = published.law;
  const table = tableOf(inner);
  const none = wholes(row, WHOLE, "a weight of no answer");
  const [hush] = wholes([hushed ?? null], WHOLE, "hush") as [number];
  require(none.length === table.values.length + 1 && total(none) === WHOLE, "no answer has a row of weights");
  const quiet = (rows: number[]) => quietRatio(table, rows, none, hush);
  const parameters = { ...Object.fromEntries(settings as [string, Json][]), epsilon: epsilon ?? null };
  const { loss, budget: promised } = withRanges
    ? gradedOrNone(table, parameters, quiet)
    : plainOrNone(table, parameters, quiet);
  const size = bytesFor(none.length);
  return {
    ...law(published, { kind: "number or none" }, promised, loss, size),
    respond: ([x], own) => octets(symbolOrNone(table, none, hush, x!, own), size),
    chances: ([x]) => chancesOrNone(table, none, hush, x!),
  };
}

type Quiet = (rows: number[]) => Ratio;
type Verdict = { loss: Law["loss"]; budget: number };

function plainOrNone(table: WeightTable, parameters: Table, quiet: Quiet): Verdict {
  const promised = budget(parameters["epsilon"]);
  const ratio = most([table.ratios([table.all])[0]![0]!, quiet(table.all)]);
  return { loss: lossOf(ratio, promised), budget: promised };
}

/** No answer is protected as a value of the range with the smallest budget. */
function gradedOrNone(table: WeightTable, parameters: Table, quiet: Quiet): Verdict {
  const { rows, budgets } = ranges(parameters, table.grid as UnevenGrid);
  const shy = budgets.reduce((least, row, g) => (before(row, g, least, budgets) ? g : least), 0);
  const own = budgets[shy]!;
  const ratios = table.ratios(rows).map((row, g) => [...row, quiet(rows[g]!)]);
  const last = [...ratios.map((row) => row.at(-1)!), [1n, 1n] as Ratio];
  const limits = [...budgets.map((row, g) => [...row, own[g]!]), [...own, Math.min(...own)]];
  return { loss: pairwise([...ratios, last], limits), budget: Math.max(...budgets.flat()) };
}

/** Whether a range is more private: by its own budget, then by the sum of its row. */
function before(row: number[], g: number, least: number, budgets: number[][]): boolean {
  const other = budgets[least]!;
  const sum = (of: number[]) => of.reduce((a, b) => a + b, 0);
  return row[g]! < other[least]! || (row[g] === other[least] && sum(row) < sum(other));
}

/** The largest ratio between no answer and a value that mixes these rows, either way. */
function quietRatio(table: WeightTable, rows: number[], none: readonly number[], hush: number): Ratio {
  const scale = BigInt(WHOLE - hush) * BigInt(WHOLE / table.total);
  const ends = [table.extreme(Math.max, rows), table.extreme(Math.min, rows)];
  const ratios = ends.flatMap((end) =>
    end.map((weight, symbol) => apart(scale * BigInt(weight), BigInt(WHOLE) * BigInt(none[symbol]!))),
  );
  return most([...ratios, apart(none.at(-1)!, hush)]);
}

function symbolOrNone(
  table: WeightTable,
  none: readonly number[],
  hush: number,
  x: Answer,
  own: Words,
): number {
  const [first, second, third] = [own.word(), own.word(), own.word()];
  if (Number.isNaN(x)) return picked(none, second);
  const symbol = table.symbol(x, first, second);
  return third < hush ? none.length - 1 : symbol;
}

function chancesOrNone(table: WeightTable, none: readonly number[], hush: number, x: Answer): Chances {
  const heard = 1 - hush / WHOLE;
  const probabilities = Number.isNaN(x)
    ? none.map((weight) => weight / WHOLE)
    : [...table.chances(x).map((chance) => chance * heard), hush / WHOLE];
  return { kind: "symbols", probabilities, values: table.values };
}
