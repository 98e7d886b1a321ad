/** The two answers that are easiest to tell apart, and by which report: found here, exactly, from the
 * whole numbers of a published law.
 *
 * A number's law is a table with a row for each point of a grid. A value between two points mixes
 * their rows, and a mixture is never easier to tell from another than the rows are: the rows decide.
 */

import type { Law } from "murmuration-client";

/** What the page reads of a published law beside what the library has checked. */
export interface Published {
  readonly weights?: readonly (readonly number[])[];
  readonly values?: readonly number[];
  readonly places?: readonly number[] | null;
  readonly jumps?: readonly number[] | null;
  readonly none?: readonly number[];
  readonly hush?: number;
}

/** Where a loss is reached: inputs from -1 to 1 (NaN: no answer), and what the report is read as
 * (NaN: "no answer"). */
export interface Witness {
  readonly one: number;
  readonly other: number;
  readonly report: number;
  /** How many whole numbers were compared. */
  readonly cells: number;
}

const WHOLE = 2 ** 52;

interface Row {
  readonly input: number;
  readonly weights: readonly bigint[];
}

/** Return where a table's loss is reached; undefined where the law is none, or where what is found is
 * not the loss that the library has found in another way. */
export function witness(law: Law, published: Published): Witness | undefined {
  const { weights, values } = published;
  if (!weights || !values) return undefined;
  const rows = rowsOf(weights, published);
  const best = values
    .concat(published.none ? [NaN] : [])
    .map((value, symbol) => extreme(rows, symbol, value));
  const possible = best.filter(({ top }) => top > 0n); // by nobody sent: tells nothing
  const found = possible.reduce((worst, one) =>
    one.top * worst.bottom > worst.top * one.bottom ? one : worst,
  );
  const [above, below] = law.loss.ratio ?? [1n, 0n];
  const same = below ? found.top * below === above * found.bottom : found.bottom === 0n;
  if (!same) return undefined;
  const cells = rows.length * best.length;
  return { one: found.one, other: found.other, report: found.report, cells };
}

function extreme(rows: readonly Row[], symbol: number, report: number) {
  const weight = (row: Row) => row.weights[symbol]!;
  const high = rows.reduce((best, row) => (weight(row) > weight(best) ? row : best));
  const low = rows.reduce((best, row) => (weight(row) < weight(best) ? row : best));
  return { top: weight(high), bottom: weight(low), one: high.input, other: low.input, report };
}

/** Rows over one total; where there may be no answer, with it as one more symbol and one more row. */
function rowsOf(
  weights: readonly (readonly number[])[],
  { places, jumps, none, hush }: Published,
): Row[] {
  const inputs = places
    ? uneven(places, jumps ?? [])
    : weights.map((_, row) => (2 * row) / (weights.length - 1) - 1);
  const rows = weights.map((row, at) => ({ input: inputs[at]!, weights: row.map(BigInt) }));
  if (!none || hush === undefined) return rows;
  const [all, quiet] = [BigInt(WHOLE), BigInt(hush)];
  const total = rows[0]!.weights.reduce((sum, weight) => sum + weight, 0n);
  const spoken = rows.map(({ input, weights: own }) => ({
    input,
    weights: [...own.map((weight) => (weight * all * (all - quiet)) / total), quiet * all],
  }));
  return [...spoken, { input: NaN, weights: none.map((weight) => BigInt(weight) * all) }];
}

/** The inputs of rows where the grid is uneven: two rows at a jump. */
function uneven(places: readonly number[], jumps: readonly number[]): number[] {
  const twice = new Set(jumps);
  return places.flatMap((place) => {
    const input = (2 * place) / WHOLE - 1;
    return twice.has(place) ? [input, input] : [input];
  });
}
