/** What one person of a training is asked: a value, worked out from features and target.
 *
 * The same bits as everywhere: + - * / and the square root, sums from the first feature to the last,
 * and the logistic function by a published table. Whatever the numbers of a round are, the value is
 * clamped to what the law takes.
 */

/** The points that a number of a feature is rounded to, and the parts of the target's range. */
export const [POINTS, TARGET_PARTS] = [9, 16];

/** A linear model of features that are centred and scaled. */
export interface Model {
  readonly weights: readonly number[];
  readonly level: number;
  readonly centre: readonly number[];
  readonly scale: readonly number[];
}

/** Where the columns of a feature are; no labels: it is a number. */
export interface Columns {
  readonly first: number;
  readonly width: number;
  readonly labels: number;
}

/** One role of a round: what is asked, by which law, at which models, with which numbers. */
export interface Role {
  readonly ask: string;
  readonly law: number;
  readonly model?: Model;
  readonly without?: Model;
  readonly column?: Columns;
  readonly numbers: Readonly<Record<string, number>>;
}

/** What is minimised, and the logistic function's values at 0, 1/16, ..., 16 in units of 2^-30. */
export interface Objective {
  readonly model: "linear" | "logistic" | "svm";
  readonly logistic: readonly number[];
}

/** A vector is made shorter than its limit by so much: rounding cannot leave the ball. */
const HAIR = 1 + 1e-9;
const STEPS = 16;
const ONE = 2 ** 30;

/** Return what is randomised: one number from -1 to 1, a vector no longer than 1, or an item. */
export function valuesOf(
  role: Role,
  x: readonly number[],
  y: number,
  objective: Objective,
): number[] {
  const { clip, half } = role.numbers;
  if (role.column) return [pointOf(role.column, x)];
  if (role.ask === "bin") {
    return [Math.min(Math.floor((clamped(y) + 1) * (TARGET_PARTS / 2)), TARGET_PARTS - 1)];
  }
  if (clip !== undefined) {
    const rows = vectorOf(role, x, y, objective).map((one) => one / clip);
    const most = Math.max(length(rows) * HAIR, 1);
    return rows.map((one) => one / most);
  }
  return [clamped(numberOf(role, x, y, objective) / half!)];
}

/** Return the label, or the nearest of the points -1, ..., 1 of a number. */
function pointOf({ first, width, labels }: Columns, x: readonly number[]): number {
  if (labels) {
    const own = x.slice(first, first + width).findIndex((one) => one > 0.5);
    return own < 0 ? width : own;
  }
  const half = (POINTS - 1) / 2;
  return Math.floor(half * clamped(x[first]!) + half + 0.5);
}

function clamped(number: number): number {
  return Math.min(Math.max(number, -1), 1);
}

function vectorOf(role: Role, x: readonly number[], y: number, objective: Objective): number[] {
  const { ask, model, numbers } = role;
  if (ask === "offset") return [prediction(model!, x)];
  const slope = smooth(objective, score(model!, x), y);
  if (ask === "leftovers") return [-slope];
  const cut = slope / Math.max(length([slope]) / numbers["most"]!, 1);
  const features = scaled(model!, x);
  const most = Math.max(length(features) / numbers["reach"]!, 1);
  const whole = [...features.map((one) => one / most), numbers["constant"]!];
  return whole.map((one) => cut * one);
}

function numberOf(role: Role, x: readonly number[], y: number, objective: Objective): number {
  const { ask, model, without, numbers } = role;
  const { half = 0, middle = 0, level = 0, most = 1, size = 1, lean = 0 } = numbers;
  switch (ask) {
    case "target":
      return y;
    case "spread":
      return Math.abs(y - level) - half;
    case "leftover":
      return -smooth(objective, score(model!, x), y);
    case "size":
      return length([prediction(model!, x)]) - half;
    case "gain":
      return square(score(without!, x) - y) - square(score(model!, x) - y);
    case "right":
      return (score(model!, x) > 0 ? 1 : -1) === y ? 1 : -1;
    default: {
      const slope = -smooth(objective, score(without!, x), y);
      const off = slope / Math.max(length([slope]) / most, 1) - lean;
      const told = prediction(model!, x) - middle;
      return off * (told / Math.max(length([told]) / size, 1));
    }
  }
}

function length(vector: readonly number[]): number {
  return Math.sqrt(vector.reduce((sum, one) => sum + one * one, 0));
}

function square(number: number): number {
  return number * number;
}

function scaled({ centre, scale }: Model, x: readonly number[]): number[] {
  return x.map((one, i) => (one - centre[i]!) / scale[i]!);
}

function prediction(model: Model, x: readonly number[]): number {
  return scaled(model, x).reduce((sum, one, i) => sum + model.weights[i]! * one, 0);
}

function score(model: Model, x: readonly number[]): number {
  return prediction(model, x) + model.level;
}

/** The slope of the loss by the score. */
function smooth({ model, logistic: table }: Objective, score: number, y: number): number {
  if (model === "linear") return score - y;
  if (model === "svm") return -y * Math.max(0, 1 - y * score);
  return -y * logistic(table, -y * score);
}

/** About 1/(1 + e^-s): the table, and a line between its entries. */
export function logistic(table: readonly number[], score: number): number {
  const place = Math.min(Math.abs(score) * STEPS, table.length - 1);
  const first = Math.floor(place);
  const low = table[first]!;
  const found = (low + (place - first) * ((table[first + 1] ?? low) - low)) / ONE;
  return score >= 0 ? found : 1 - found;
}
