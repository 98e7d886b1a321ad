/** A table of two attributes: one more question, whose items are pairs. The device answers it from
 * the answers to both. */

import { type Json, type Table, must, table, texts } from "./form.js";
import { ATTRIBUTE_KEYS, MOST_LABELS, MOST_ATTRIBUTE_LABELS } from "./protocol.js";
import { type Answer, type Question, SPREAD } from "./types.js";

/** Return the questions of published tables, from the attributes of the same campaign. */
export function tablesOf(values: readonly Json[], plain: readonly Question[]): Question[] {
  const found = values.map((value) => sidesOf(value, plain));
  const cells = found.map(([rows, columns]) => items(rows!) * items(columns!));
  must(cells.every((many) => many <= MOST_ATTRIBUTE_LABELS), "a table is too large");
  must(cells.reduce((sum, many) => sum + many, 0) <= MOST_LABELS, "there are too many cells of tables");
  return found.map(questionOf);
}

interface Side {
  readonly of: Question;
  readonly cuts: readonly number[];
}

function sidesOf(value: Json, plain: readonly Question[]): Side[] {
  const given = table(value, ATTRIBUTE_KEYS, "a table");
  must(Object.keys(given).join() === "name,kind,of,cuts", "a table has a name, and what it is of");
  const names = texts(given["of"]!, "of");
  must(names.length === 2 && names[0] !== names[1], "a table is of two different attributes");
  must(given["name"] === names.join(" by "), "a table has a name of its attributes");
  const cuts = given["cuts"] as Json[];
  must(Array.isArray(cuts) && cuts.length === 2, "a table has cuts for both attributes");
  return names.map((name, i) => sideOf(plain.find((one) => one.name === name), cuts[i]!));
}

function sideOf(of: Question | undefined, found: Json): Side {
  const open = of && !of.checks && of.kind !== "graded";
  must(open && Array.isArray(found), "a table is of attributes that people answer");
  const cuts = found as number[];
  if (of!.labels.length) {
    must(!cuts.length, "labels are not cut");
    return { of: of!, cuts };
  }
  const { low, high } = of!;
  const numbers = cuts.length && cuts.every((cut) => typeof cut === "number" && !Object.is(cut, -0));
  const inside = rising([low, ...cuts, high]) && rising(cuts.map((cut) => scaled(of!, cut)));
  must(numbers && inside, "cuts go up between the ends of the range");
  return { of: of!, cuts };
}

function rising(numbers: readonly number[]): boolean {
  return numbers.every((one, i) => i === 0 || numbers[i - 1]! < one);
}

/** A number where the range is [-1, 1], by the rule that encodes answers. */
function scaled({ low, high }: Question, value: number): number {
  return 2 * ((value - low) / (high - low)) - 1;
}

/** How many items a side has: labels or bins, and no answer where there may be none. */
function items({ of, cuts }: Side): number {
  return (of.labels.length || cuts.length + 1) + Number(of.missing);
}

function labels({ of, cuts }: Side): string[] {
  const ends = [of.low, ...cuts, of.high];
  const bins = ends.slice(1).map((end, i) => `${ends[i]} to ${end}`);
  const own = of.labels.length ? of.labels : bins;
  return of.missing ? [...own, "no answer"] : [...own];
}

function questionOf(sides: Side[]): Question {
  const [rows, columns] = sides as [Side, Side];
  const of = sides.map((side) => side.of.name);
  return {
    ...{ name: of.join(" by "), kind: "table", low: NaN, high: NaN, unit: "", outside: "spread" },
    ...{ missing: false, case: "exact", markers: [], checks: "", of },
    cuts: sides.map((side) => side.cuts),
    labels: labels(rows).flatMap((row) => labels(columns).map((column) => `${row}, ${column}`)),
  };
}

/** Return the answers with those to tables, which are made of others; a cell is not known before a
 * label that stands for an unfit answer is drawn. */
export function tabled(questions: readonly Question[], answers: readonly Answer[]): Answer[] {
  return questions.map((question, place) => {
    if (question.kind !== "table") return answers[place]!;
    const sides = question.of.map((name, i) => {
      const at = questions.findIndex((one) => one.name === name);
      return placeOn({ of: questions[at]!, cuts: question.cuts[i]! }, answers[at]!);
    });
    const columns = question.of[1]!;
    const width = items({ of: questions.find(({ name }) => name === columns)!, cuts: question.cuts[1]! });
    return sides.includes(SPREAD) ? SPREAD : sides[0]! * width + sides[1]!;
  });
}

/** The item of an answer on a side; a number at a cut is above it. */
function placeOn({ of, cuts }: Side, answer: Answer): Answer {
  if (of.labels.length) return answer;
  if (Number.isNaN(answer)) return cuts.length + 1;
  return cuts.filter((cut) => scaled(of, cut) <= answer).length;
}

/** Whether the device answers a question by itself, from the answers to others. */
export function derived({ checks, of }: Question): boolean {
  return checks !== "" || of.length > 0;
}

/** Refuse a campaign whose tables could not be read: each person answers one question, once and at
 * one level. */
export function requireAlone(found: Table, questions: readonly Question[], again: boolean): void {
  if (!questions.some(({ kind }) => kind === "table")) return;
  const { strategy, sample = 1 } = found;
  must(strategy === "sample" && sample === 1 && !again, "tables are asked of some people, once");
}
