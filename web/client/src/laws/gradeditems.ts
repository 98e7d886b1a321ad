/** Items with budgets of their own: a table with a row of weights for each item. */

import { budget, list, must, wholes } from "../form.js";
import { largest, most, pairwise } from "../loss.js";
import type { Law } from "../types.js";
import { WHOLE } from "../words.js";
import { matrix, picked, total } from "./number.js";
import { type Published, bytesFor, items, law, octets } from "./shared.js";

/** As many numbers as a published table has, at most. */
const MOST_WEIGHTS = 1 << 15;

export function gradedItems(published: Published): Law {
  const { parameters } = published;
  const k = items(parameters);
  const own = list(parameters["epsilon"], k, "epsilon").map(budget);
  const rows = list(published.law["weights"], k, "weights").map((row) =>
    wholes(row, WHOLE, "a weight"),
  );
  const columns = rows[0]!.length;
  must(
    own.length === k &&
      rows.length === k &&
      columns > 1 &&
      k * columns <= MOST_WEIGHTS &&
      rows.every((row) => row.length === columns && total(row) === WHOLE),
    "a table has a row for each item, and all rows add up to 2^52",
  );
  const budgets = matrix(parameters["semantics"]!, own);
  const found = rows.map((top) => rows.map((bottom) => largest(top, bottom)));
  const loss = pairwise(
    found.map((row, u) => row.map((ratio, v) => most([ratio, found[v]![u]!]))),
    budgets,
  );
  const promised = Math.max(...budgets.flatMap((row, u) => row.filter((_, v) => u !== v)));
  const size = bytesFor(columns);
  return {
    ...law(published, { kind: "items", k }, promised, loss, size),
    respond: ([item], words) => octets(picked(rows[item!]!, words.word()), size),
    chances: () => ({ kind: "support", ...support(rows) }),
  };
}

/** How often a report supports the own item, at least, and another one, at most: it supports those
 * of which it is likelier than of all on average. */
function support(rows: readonly (readonly number[])[]) {
  const all = rows[0]!.map((_, y) => rows.reduce((sum, row) => sum + row[y]!, 0));
  const rates = rows.map((row) =>
    rows.map((other) =>
      row.reduce(
        (sum, weight, y) => sum + (rows.length * other[y]! > all[y]! ? weight : 0),
        0,
      ),
    ),
  );
  return {
    own: Math.min(...rates.map((row, u) => row[u]!)) / WHOLE,
    other: Math.max(...rates.flatMap((row, u) => row.filter((_, v) => u !== v))) / WHOLE,
  };
}
