/** A training and its rounds as they are published, read by a device that trusts nobody. */

import {
  another,
  bad,
  budget,
  digestOf,
  float,
  fraction,
  type Json,
  larger,
  lawOf,
  list,
  most,
  must,
  MurmurationError,
  passingOver,
  questionOf,
  requireTaken,
  type Sample,
  sample,
  type Table,
  table,
  terms,
  WHOLE,
  whole,
  wholes,
  written,
} from "../core.js";
import {
  ASKED_KEYS,
  DOCUMENT_KEYS,
  FORMAT,
  MODEL_KEYS,
  MOST_COLUMNS,
  MOST_DEADLINE,
  MOST_DOCUMENT_BYTES,
  MOST_ROLES,
  MOST_ROUND_BYTES,
  MOST_ROUNDS,
  MOST_TRAINING_LAWS,
  ROLE_MODELS,
  ROLE_NUMBERS,
  ROUND_KEYS,
  TRAINING_KEYS,
  WIRE,
} from "../protocol.js";
import type { Campaign, Domain, Law, Loss, Question, ReadOptions } from "../types.js";
import type { RoundLink } from "./chain.js";
import { privunit } from "./privunit.js";
import { type Columns, type Model, type Objective, POINTS, type Role, TARGET_PARTS } from "./questions.js";

/** No number of a round is beyond this, and none that is divided by below 1/this. */
const LARGEST = 2 ** 100;
const FARTHEST = 2 ** 20;
const TABLE = 257;

/** One attribute that the model learns from; `typical` is where most people are said to be. */
export interface Feature {
  readonly question: Question;
  /** The middle of the typical range and half of it, from -1 to 1 on the range. */
  readonly typical: readonly [middle: number, half: number];
  readonly width: number;
}

type Terms = Pick<
  Campaign,
  "digest" | "version" | "purpose" | "people" | "opens" | "closes" | "cohort" | "upload" | "origins"
>;

/** A training that was read and checked: every law keeps its promise. */
export interface Training extends Terms {
  readonly name: string;
  readonly epsilon: number;
  readonly objective: Objective;
  readonly features: readonly Feature[];
  readonly target: Question;
  /** All attributes, the target last. */
  readonly questions: readonly Question[];
  readonly width: number;
  readonly laws: readonly Law[];
  /** What one report costs. */
  readonly charge: number;
  /** The exact loss of the costliest law. */
  readonly loss: Loss;
}

/** One round: what its people are asked. */
export interface Round extends RoundLink {
  readonly roles: readonly Role[];
  readonly sample: Sample;
}

async function guarded<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (problem) {
    if (problem instanceof MurmurationError) throw problem;
    throw bad((problem as Error).name); // no JSON, no UTF-8, or nested without end
  }
}

/** Return a document with exactly these keys; `known` leaves out others first, where they may be. */
function opened(
  bytes: Uint8Array,
  largest: number,
  keys: string,
  known: (found: Json, keys: string) => Json = (found) => found,
): Table {
  must(bytes.length <= largest, `${bytes.length} bytes are more than ${largest}`);
  const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  const document = table(known(JSON.parse(text) as Json, keys), keys, "the document", false);
  must(document["format"] === FORMAT, "its format needs a newer program");
  return document;
}

/** Return the training of a document, or say what is wrong with it. */
export function readTraining(bytes: Uint8Array, options: ReadOptions): Promise<Training> {
  return guarded(async () => {
    const document = opened(bytes, MOST_DOCUMENT_BYTES, DOCUMENT_KEYS, passingOver);
    const { campaign: name, collection, digest: claimed, people } = document;
    must(typeof collection === "string", "the collection is a text");
    const found = await digestOf(collection);
    must(found === claimed, "it was changed: the digest is not that of its text");
    if ((options.digest ?? found) !== found) {
      throw another(`has the digest ${found}, not ${options.digest}`);
    }
    const inside = table(JSON.parse(collection) as Json, TRAINING_KEYS, "the collection");
    must(written(inside) === collection, "it is not written as it is published");
    must(inside["wire"] === WIRE && inside["kind"] === "model", "this is not a training");
    must(name === inside["campaign"] && people === inside["people"], "name or people differ inside and outside its text");
    if (name !== options.address.replace(/\/+$/, "").split("/").pop()) {
      throw another("has another name than the address");
    }
    return { ...terms(document), ...taught(inside) };
  });
}

function taught(found: Table) {
  const features = list(found["features"], MOST_COLUMNS, "features").map(featureOf);
  const target = questionOf(found["target"]!);
  const width = features.reduce((sum, feature) => sum + feature.width, 0);
  must(width <= MOST_COLUMNS, "features are 1,023 columns at most");
  const questions = [...features.map((feature) => feature.question), target];
  must(new Set(questions.map(({ name }) => name)).size === questions.length, "two have one name");
  must(!questions.some(({ missing }) => missing), "a model has a number for everybody");
  const { model } = found;
  const classes = model === "logistic" || model === "svm";
  must(classes || model === "linear", "no model is called that");
  const fits = classes ? target.labels.length === 2 : target.kind === "number";
  must(fits, "the target is a number, or one of two labels");
  whole(found["deadline"], 1, MOST_DEADLINE, "deadline");
  if (found["rounds"] !== undefined) whole(found["rounds"], 10, 1000, "rounds");
  const epsilon = budget(found["epsilon"]);
  const sizes = features.map(({ question }) => question.labels.length || POINTS);
  const items = [...new Set([...sizes, ...(classes ? [] : [TARGET_PARTS])])].sort((a, b) => a - b);
  const laws = lawsOf(found["laws"], width, items, epsilon);
  const ratio = most(laws.map((law) => law.loss.ratio));
  return {
    ...{ name: String(found["campaign"]), epsilon, features, target, questions, width, laws },
    objective: { model, logistic: logisticOf(found) } as Objective,
    charge: Math.max(...laws.map((law) => law.charge)),
    loss: laws.find((law) => law.loss.ratio === ratio)?.loss ?? laws[0]!.loss,
  };
}

/** Read the logistic function's table: it goes up, from a half to 1. */
function logisticOf({ model, logistic }: Table): number[] {
  must((model === "logistic") === (logistic !== undefined), "a table is for the logistic model");
  if (logistic === undefined) return [];
  const found = wholes(logistic, 2 ** 30, "logistic");
  const rising = found.every((one, i) => one >= (i ? found[i - 1]! : 2 ** 29));
  must(found.length === TABLE && found[0] === 2 ** 29 && rising, "the logistic table");
  return found;
}

function featureOf(value: Json): Feature {
  const { typical, ...rest } = value as Table;
  const question = questionOf(rest);
  const { kind, labels, low, high } = question;
  must(kind === "number" || kind === "category", "a feature is a number or a category");
  if (typical === undefined) return { question, typical: [0, 1], width: Math.max(labels.length - 1, 1) };
  const [a, b, more] = typical as number[];
  const range = typeof a === "number" && typeof b === "number" && more === undefined;
  const last = Object.keys(value as Table).at(-1) === "typical";
  must(range && last && !labels.length && low <= a && a < b && b <= high, "a typical range");
  must(![a, b].some((end) => Object.is(end, -0)), "a typical range");
  const [first, second] = [a, b].map((end) => 2 * ((end - low) / (high - low)) - 1) as [number, number];
  const half = (second - first) / 2;
  must(half * FARTHEST >= 2, "the typical range is too narrow");
  return { question, typical: [(first + second) / 2, half], width: 1 };
}

/** Read the laws: for a number, for vectors of each length, and for one of each number of items;
 * each keeps epsilon. */
function lawsOf(given: Json | undefined, width: number, items: number[], epsilon: number): Law[] {
  const dimensions = [1, width + 1];
  const documents = list(given, MOST_TRAINING_LAWS, "laws");
  must(documents.length === 3 + items.length, "a law for a number, each vector and each list");
  const laws = documents.map((one, i) => (i === 1 || i === 2 ? privunit(one) : lawOf(one)));
  requireTaken(laws[0]!, { kind: "number" });
  dimensions.forEach((d, i) => requireTaken(laws[i + 1]!, { kind: "ball", d }));
  items.forEach((k, i) => requireTaken(laws[i + 3]!, { kind: "items", k }));
  for (const { loss, broken, budget: promised, permanent, name } of laws) {
    const kept = loss.kept && !broken && !permanent;
    if (kept && !larger(fraction(promised), fraction(epsilon))) continue;
    throw new MurmurationError(
      "promise",
      `${name} is refused: it costs ${loss.words}. Nothing was sent.`,
    );
  }
  return laws;
}

// --- rounds --------------------------------------------------------------------------------------

/** The numbers of each role, in the order in which they are written, and its models. */
const NUMBERS: Readonly<Record<string, string>> = ROLE_NUMBERS;
const MODELS: Readonly<Record<string, string>> = ROLE_MODELS;
const POSITIVE = /^(half|clip|most|reach|size|scale)$/;
const WHOLES = /^(wire|round|law|model|without|feature|ends)$/;

/** Return the round of a document, or say what is wrong with it. */
export function readRound(bytes: Uint8Array, training: Training): Promise<Round> {
  return guarded(async () => {
    const document = opened(bytes, MOST_ROUND_BYTES, ROUND_KEYS);
    const { asked, digest, round: number, campaign } = document;
    must(typeof asked === "string", "a round is a text");
    must((await digestOf(asked)) === digest, "it was changed: the digest is not that of its text");
    const found = table(
      JSON.parse(asked) as Json,
      ASKED_KEYS,
      "a round",
    );
    if (found["training"] !== training.digest || campaign !== training.name) {
      throw another("is another training's round");
    }
    must(found["wire"] === WIRE && found["round"] === number, "the round has two numbers");
    const { after } = found;
    must(typeof after === "string" && /^[0-9a-f]{64}$/.test(after), "after is a digest");
    const first = whole(number, 1, MOST_ROUNDS, "round") === 1;
    must(first === (after === training.digest), "the first round, and no other, names the campaign's");
    const tables = found["models"] as Table[];
    must(Array.isArray(tables) && tables.length <= 2 * MOST_ROLES, "models are a list");
    const models = tables.map((one) => modelOf(one, training.width));
    const given = list(found["roles"], MOST_ROLES, "roles") as Table[];
    const roles = given.map((role) => roleOf(role, models, training));
    requireNamed(given, tables);
    const { ends = null } = found;
    const shares = ends === null ? null : wholes(ends, WHOLE, "ends");
    must(shares?.length !== 0, "the ends of one role are left out");
    must(roundText(found) === asked, "it is not written as it is published");
    return { number, digest, after, roles, sample: sample(roles.length, 1, shares) } as Round;
  });
}

/** Models are written once, in the order in which roles name them. */
function requireNamed(roles: readonly Table[], models: readonly Table[]): void {
  const named = roles.flatMap((role) =>
    (MODELS[String(role["ask"])] ?? "").split(" ").flatMap((key) => (key ? [role[key]!] : [])),
  );
  const order = [...new Set(named)];
  const once = new Set(models.map((one) => JSON.stringify(one))).size === models.length;
  must(once && order.length === models.length && order.every((one, i) => one === i), "models");
}

function roleOf(role: Table, models: readonly Model[], training: Training): Role {
  const ask = String(role["ask"]);
  const names = Object.hasOwn(NUMBERS, ask) ? NUMBERS[ask]! : "";
  const at = MODELS[ask] ?? "";
  must(Object.hasOwn(NUMBERS, ask), "a role asks what no training asks");
  const found = table(role, ["ask law", at, names].filter(Boolean).join(" "), "a role");
  const keys = names.split(" ").filter((key) => key && key !== "feature");
  const numbers = Object.fromEntries(keys.map((key) => [key, numberOf(found[key], key)]));
  const place = (key: string) => models[whole(found[key], 0, models.length - 1, key)]!;
  const law = whole(found["law"], 0, training.laws.length - 1, "law");
  const column = ask === "column" ? columnOf(found["feature"], training) : undefined;
  requireTaken(training.laws[law]!, domainOf(ask, names, column, training.width));
  return {
    ...{ ask, law, numbers },
    ...(column && { column }),
    ...(at && { model: place("model") }),
    ...(at.includes("without") && { without: place("without") }),
  };
}

/** Return where the columns of a feature are, and how many labels it has. */
function columnOf(value: Json | undefined, { features }: Training): Columns {
  const place = whole(value, 0, features.length - 1, "feature");
  const first = features.slice(0, place).reduce((sum, { width }) => sum + width, 0);
  return { first, width: features[place]!.width, labels: features[place]!.question.labels.length };
}

/** Return what the law of a role takes. */
function domainOf(ask: string, names: string, column: Columns | undefined, width: number): Domain {
  if (column) return { kind: "items", k: column.labels || POINTS };
  if (ask === "bin") return { kind: "items", k: TARGET_PARTS };
  if (!names.includes("clip")) return { kind: "number" };
  return { kind: "ball", d: ask === "gradient" ? width + 1 : 1 };
}

function modelOf(value: Table, width: number): Model {
  const { weights, level, centre, scale } = table(value, MODEL_KEYS, "a model");
  return {
    weights: vectorOf(weights, width),
    level: numberOf(level, "level"),
    centre: vectorOf(centre, width),
    scale: vectorOf(scale, width, "scale"),
  };
}

function vectorOf(value: Json | undefined, many: number, key = ""): number[] {
  must(Array.isArray(value) && value.length === many, `a round's vector has ${many} numbers`);
  return value.map((one) => numberOf(one, key));
}

/** Return a number that can be reckoned with: nothing overflows, nothing is divided by 0. */
function numberOf(value: Json | undefined, key: string): number {
  const fits =
    typeof value === "number" &&
    Math.abs(value) <= LARGEST &&
    !Object.is(value, -0) &&
    (!POSITIVE.test(key) || value >= 1 / LARGEST);
  must(fits, "a round's number is not finite, too large, or too small to divide by");
  return value;
}

/** Write a round as it is published. */
function roundText(value: Json, key = ""): string {
  if (typeof value === "number") return WHOLES.test(key) ? String(value) : float(value);
  if (Array.isArray(value)) return `[${value.map((one) => roundText(one, key)).join()}]`;
  if (typeof value === "object" && value) {
    return `{${Object.entries(value).map(([name, one]) => `"${name}":${roundText(one, name)}`).join()}}`;
  }
  return JSON.stringify(value);
}
