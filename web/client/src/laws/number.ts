/** Laws for numbers: a grid, and a table with a row of integer weights for each of its points.
 *
 * The number x becomes X = (x+1) 2^51. A first word rounds it at random to one end of its cell of
 * the grid; a second word draws a symbol from that point's row.
 */

import { type Json, type Table, budget, list, must, whole, wholes } from "../form.js";
import { MOST_RANGES } from "../protocol.js";
import { apart, largest, lossOf, most, pairwise } from "../loss.js";
import type { Answer, Chances, Law, Loss, Ratio } from "../types.js";
import { WHOLE, type Words } from "../words.js";
import { kept } from "./item.js";
import { type Published, bytesFor, law, octets } from "./shared.js";

/** X, an integer from 0 to 2^52. */
export function fixedPoint(x: number): number {
  return (x + 3 - 2) * (WHOLE / 2);
}

/** Points from -1 to 1, each with a row of the table. */
interface Grid {
  readonly rows: number;
  readonly places: ReadonlySet<number>;
  /** The rows of the cells from one place to another. */
  between(low: number, high: number): number[];
  /** The lower row that a value mixes, and how much of the next one. */
  mixed(x: number): readonly [row: number, part: number];
  /** Round to one end of the cell, up with probability (its fraction), exactly. */
  round(x: number, word: number): number;
}

/** A grid with points at these places, from 0 to 2^52. At a jump there are two rows: of the cell
 * below, and of the one above. */
function gridOf(places: readonly number[], jumps: readonly number[]): Grid {
  const jumped = new Set(jumps);
  const inner = places.slice(1, -1);
  const between = new Set(inner);
  must(
    places[0] === 0 &&
      places.at(-1) === WHOLE &&
      rising(places) &&
      jumps.every((jump) => between.has(jump)),
    "places go up from 0 to 2^52, and jumps are some of those between",
  );
  let more = 0;
  const low = places.slice(0, -1).map((place, cell) => cell + (more += Number(jumped.has(place))));
  const mixed = (x: number) => {
    const X = fixedPoint(x);
    const cell = inner.reduce((count, place) => count + Number(X >= place), 0);
    const start = places[cell]!;
    return [low[cell]!, (X - start) / (places[cell + 1]! - start)] as const;
  };
  return {
    rows: places.length + jumped.size,
    places: new Set(places),
    between: (from, to) => {
      const cells = low.filter((_, cell) => places[cell]! >= from && places[cell]! < to);
      return [...new Set(cells.flatMap((row) => [row, row + 1]))];
    },
    mixed,
    round: (x, word) => {
      const [row, part] = mixed(x);
      return row + Number(word + Math.floor(part * WHOLE) >= WHOLE);
    },
  };
}

function rising(numbers: readonly number[]): boolean {
  return numbers.every((number, i) => !i || number > numbers[i - 1]!);
}

/** A grid of equal cells: a power of two of them. */
export function evenGrid(cells: number): Grid {
  must(WHOLE % cells === 0, "a grid has a power of two of cells");
  return gridOf(
    Array.from({ length: cells + 1 }, (_, i) => (i * WHOLE) / cells),
    [],
  );
}

/** Rows of integer weights, all with the same power of two as total. */
interface Weights {
  readonly values: readonly number[];
  readonly grid: Grid;
  /** All rows. */
  readonly rows: readonly number[];
  /** What a weight times that is out of 2^52. */
  readonly scale: number;
  /** The largest, or the least, weight of each symbol in some rows. */
  extreme(choose: (...weights: number[]) => number, rows: readonly number[]): number[];
  /** The largest ratio between rows of one list and rows of another, for each two of the lists. */
  ratios(ranges: readonly (readonly number[])[]): Ratio[][];
  symbol(x: number, first: number, second: number): number;
  /** How likely each symbol is for x. */
  chances(x: number): number[];
}

function weightsOf({ weights: given, values: readings, places, jumps }: Table): Weights {
  const weights = list(given, WHOLE, "weights").map((row) => wholes(row, WHOLE, "a weight"));
  const values = list(readings, WHOLE, "values") as number[];
  const grid = places
    ? gridOf(wholes(places, WHOLE, "a place"), wholes(jumps, WHOLE, "a jump"))
    : evenGrid(weights.length - 1);
  const all = total(weights[0]!);
  const scale = WHOLE / all;
  must(
    values.every((value) => typeof value === "number") &&
      weights.every((row) => row.length === values.length && total(row) === all) &&
      WHOLE % all === 0 && // a power of two
      weights.length === grid.rows,
    "a table has a row for each point of its grid, and all rows have one total, a power of two",
  );
  const extreme: Weights["extreme"] = (choose, rows) =>
    values.map((_, j) =>
      rows.reduce((found, row) => choose(found, weights[row]![j]!), weights[rows[0]!]![j]!),
    );
  return {
    ...{ values, grid, scale, extreme, rows: [...weights.keys()] },
    ratios: (ranges) => {
      const bottoms = ranges.map((rows) => extreme(Math.min, rows));
      const found = ranges.map((rows) => {
        const top = extreme(Math.max, rows);
        return bottoms.map((bottom) => largest(top, bottom));
      });
      return found.map((row, g) => row.map((ratio, h) => most([ratio, found[h]![g]!])));
    },
    symbol: (x, first, second) =>
      picked(weights[grid.round(x, first)]!, Math.floor(second / scale)),
    chances: (x) => {
      const [row, part] = grid.mixed(x);
      return values.map((_, j) => {
        const low = weights[row]![j]!;
        return ((low + part * (weights[row + 1]![j]! - low)) * scale) / WHOLE;
      });
    },
  };
}

/** Add up weights, up to 2^52: beyond, doubles would round. */
export function total(row: readonly number[]): number {
  return row.reduce((sum, weight) => whole(sum + weight, 0, WHOLE, "the total of weights"), 0);
}

/** The number of cumulative weights that are <= the word. All are looked at: time tells nothing. */
export function picked(row: readonly number[], word: number): number {
  let [sum, symbol] = [0, 0];
  for (const weight of row) symbol += Number((sum += weight) <= word);
  return symbol;
}

/** A number, by one budget for all of its range. */
export function number(published: Published): Law {
  const table = weightsOf(published.law);
  const promised = budget(published.parameters["epsilon"]);
  return answering(
    published,
    table,
    lossOf(table.ratios([table.rows])[0]![0]!, promised),
    promised,
  );
}

/** A number whose ranges have budgets of their own. */
export function graded(published: Published): Law {
  const table = weightsOf(published.law);
  const { rows, budgets } = ranges(published.parameters, table.grid);
  const loss = pairwise(table.ratios(rows), budgets);
  return answering(published, table, loss, Math.max(...budgets.flat()));
}

function answering(published: Published, table: Weights, loss: Loss, promised: number): Law {
  const size = bytesFor(table.values.length);
  return {
    ...law(published, { kind: "number" }, promised, loss, size),
    respond: ([x], own) => octets(table.symbol(x!, own.word(), own.word()), size),
    chances: ([x]) => ({ kind: "symbols", probabilities: table.chances(x!), values: table.values }),
  };
}

/** A number that is asked again: a threshold and a lie that are kept, whatever the values are, and
 * fresh noise on the bit for every report. */
export function memoisedBit(published: Published): Law {
  const { memory, ratio, own, other, permanent, size, tell, repeat } = kept(published, 2);
  const promised = budget(published.parameters["epsilon"]);
  const remember = (x: number, words: Words) => {
    const above = Number(fixedPoint(x) + words.word() >= WHOLE);
    return above ^ Number(words.word() >= memory.truth);
  };
  const bound = 1 / (own - other);
  return {
    ...law(published, { kind: "number" }, promised, lossOf(ratio, promised), size),
    charge: permanent,
    permanent: { byValue: false, tell, remember, repeat },
    respond: ([x], words) => repeat(remember(x!, words), words),
    chances: ([x]) => {
      const up = (1 + x! * (own - other)) / 2;
      return { kind: "symbols", probabilities: [1 - up, up], values: [-bound, bound] };
    },
  };
}

/** Read the budgets of ranges, and find the rows that the values of each range mix. */
function ranges({ epsilon, edges, semantics = "max" }: Table, grid: Grid) {
  const own = list(epsilon, MOST_RANGES, "epsilon").map(budget);
  const places = list(edges, MOST_RANGES + 1, "edges").map((edge) =>
    typeof edge === "number" ? fixedPoint(edge) : NaN,
  );
  must(
    places.length === own.length + 1 &&
      rising(places) &&
      places.every((place) => grid.places.has(place)) &&
      places[0] === 0 &&
      places.at(-1) === WHOLE,
    "edges go up from -1 to 1, and no cell of the grid lies in two ranges",
  );
  const rows = own.map((_, range) => grid.between(places[range]!, places[range + 1]!));
  return { rows, budgets: matrix(semantics, own) };
}

/** Return what a value of each range and one of each other range may cost. */
export function matrix(semantics: Json, own: readonly number[]): number[][] {
  const choose = semantics === "max" ? Math.max : semantics === "min" ? Math.min : undefined;
  if (choose) return own.map((a) => own.map((b) => choose(a, b)));
  const rows = list(semantics, MOST_RANGES, "semantics").map((row) =>
    list(row, MOST_RANGES, "semantics").map(budget),
  );
  const symmetric = rows.every((row, g) =>
    row.every((one, h) => one === (g === h ? own[g] : rows[h]?.[g])),
  );
  const square = rows.length === own.length && rows.every((row) => row.length === own.length);
  must(symmetric && square, "a matrix of budgets is symmetric, with epsilon on its diagonal");
  return rows;
}

// --- a number or no answer ----------------------------------------------------------------------

/** "None" is one more symbol. Those who have an answer say it, too: with the weight `hush`. */
export function orNone(published: Published, isGraded: boolean): Law {
  const { epsilon, settings } = published.parameters;
  const table = weightsOf(published.law);
  const none = wholes(published.law["none"], WHOLE, "none");
  const hush = whole(published.law["hush"], 1, WHOLE - 1, "hush");
  must(
    none.length === table.values.length + 1 && total(none) === WHOLE,
    "none is a row of weights",
  );
  const { rows, budgets } = isGraded
    ? ranges({ ...Object.fromEntries(settings as [string, Json][]), epsilon: epsilon! }, table.grid)
    : { rows: [table.rows], budgets: [[budget(epsilon)]] };
  const quiet = rows.map((range) => quietRatio(table, range, none, hush));
  const size = bytesFor(none.length);
  const loss = bordered(table.ratios(rows), quiet, budgets);
  return {
    ...law(published, { kind: "number or none" }, Math.max(...budgets.flat()), loss, size),
    respond: ([x], own) => octets(symbolOrNone(table, none, hush, x!, own), size),
    chances: ([x]) => chancesOrNone(table, none, hush, x!),
  };
}

/** The largest ratio between no answer and a value that mixes these rows, either way. */
function quietRatio(
  table: Weights,
  rows: readonly number[],
  none: readonly number[],
  hush: number,
): Ratio {
  const heard = BigInt(WHOLE - hush) * BigInt(table.scale);
  const ends = [table.extreme(Math.max, rows), table.extreme(Math.min, rows)];
  const ratios = ends.flatMap((end) =>
    end.map((weight, j) => apart(heard * BigInt(weight), BigInt(WHOLE) * BigInt(none[j]!))),
  );
  return most([...ratios, apart(none.at(-1)!, hush)]);
}

/** The loss with one more range: no answer. It is protected as a value of the range with the
 * smallest budget (of several, the one whose row adds up to least). */
function bordered(ratios: Ratio[][], quiet: Ratio[], budgets: number[][]): Loss {
  const sum = (row: number[]) => row.reduce((a, b) => a + b);
  const order = budgets.map((row, g) => ({ row, own: row[g]! }));
  const [shy] = order.sort((a, b) => a.own - b.own || sum(a.row) - sum(b.row));
  const own = shy!.row;
  return pairwise(
    [...ratios.map((row, g) => [...row, quiet[g]!]), [...quiet, [1n, 1n]]],
    [...budgets.map((row, g) => [...row, own[g]!]), [...own, shy!.own]],
  );
}

/** Three words, answer or not. */
function symbolOrNone(
  table: Weights,
  none: readonly number[],
  hush: number,
  x: Answer,
  own: Words,
) {
  const [first, second, third] = [own.word(), own.word(), own.word()];
  if (Number.isNaN(x)) return picked(none, second);
  const symbol = table.symbol(x, first, second);
  return third < hush ? none.length - 1 : symbol;
}

function chancesOrNone(table: Weights, none: readonly number[], hush: number, x: Answer): Chances {
  const heard = 1 - hush / WHOLE;
  const probabilities = Number.isNaN(x)
    ? none.map((weight) => weight / WHOLE)
    : [...table.chances(x).map((chance) => chance * heard), hush / WHOLE];
  return { kind: "symbols", probabilities, values: table.values };
}
