/** From answers to a report: which attributes are asked, each answered by its law, by words that
 * follow from the device's secret.
 *
 *     id          round                    the report's name: the same when sent again
 *     which       round                    which attributes are asked: no answer in it
 *     answer      cell, answer, round      the noise on an answer
 *     coin        cell, round              what must not look at the answer: a hash
 *     permanent   cell, answer             an answer that is kept for all rounds
 *     spell       cell, answer, spell      one that is kept for a spell
 *     paid        cell, answer             what the ledger calls it: no word is drawn
 *     kept        cell, spell              what it calls that of a spell
 *     mask        cell, spell, nonce       what hides that one in the ledger
 *     spread      attribute                the label that stands for an unfit answer
 *
 * after the collector's origin and the campaign's digest. No two purposes share words, and two
 * collectors never see the same ones.
 */

import { MurmurationError } from "./errors.js";
import { numberOf } from "./periods.js";
import { named } from "./strategy.js";
import { tabled } from "./table.js";
import {
  type Answer,
  type Campaign,
  type Cell,
  type DrawOptions,
  type Drawn,
  type Level,
  type Memo,
  type Question,
  type Report,
  SPREAD,
} from "./types.js";
import { Keyed, type Part, type Stream, drawn, hex, utf8 } from "./words.js";

const ID_BYTES = 16;
/** Of each mask: two that hide answers of one spell are different, whatever copies there are. */
const NONCE_BYTES = 16;
/** No answer to a number, as it is written: no x is that. */
const NONE = 2;

/** Where the words of each purpose come from. */
export type Source = (purpose: string, ...parts: Part[]) => Stream;

/** Draw a report: the same again for the same answers, secret, collector and round. */
export async function draw(
  campaign: Campaign,
  answers: readonly Answer[],
  options: DrawOptions,
): Promise<Drawn> {
  const { secret, origin, round = "", level } = options;
  const keyed = new Keyed(secret, [origin, campaign.digest]);
  const source: Source = (...parts) => keyed.stream(...parts);
  const own = await spread(campaign, answers, source);
  const asked = await askedCells(campaign, level, source("which", round));
  const spell = spellOf(campaign, round);
  const begun = await Promise.all(
    asked.map((cell) =>
      spell === undefined ? null : begunWith(campaign, cell, own, keyed, spell, options.kept),
    ),
  );
  const [id, entries, memos] = await Promise.all([
    keyed.name("id", round),
    Promise.all(
      asked.map((cell, i) => entry(campaign, cell, own, source, round, begun[i]?.answer)),
    ),
    spell !== undefined
      ? begun.flatMap((one) => one?.memo ?? [])
      : Promise.all(paidFor(campaign, asked, own).map((paid) => memo(campaign, paid, keyed))),
  ]);
  const report: Report = {
    wire: 1,
    digest: campaign.digest,
    id: hex(id.subarray(0, ID_BYTES)),
    entries,
    ...dated(campaign, round),
  };
  const laws = asked.map((cell) => campaign.cells[cell]!.law);
  const charges = laws.filter((law) => !law.permanent).map((law) => law.charge);
  return { report, bytes: reportBytes(report), charges, memos };
}

/** Return a report as it travels. */
export function reportBytes(report: Report): Uint8Array<ArrayBuffer> {
  const { wire, digest, id, entries, period } = report;
  return utf8(JSON.stringify({ wire, digest, id, entries, period }));
}

/** Return what a report says about its period, where there are periods: the round is its name. */
export function dated({ every }: Campaign, round: string): { period?: number } {
  return every === null ? {} : { period: numberOf(every, round) };
}

/** Return the answers, with a label for each that counts as one by chance. */
export async function spread(
  campaign: Campaign,
  answers: readonly Answer[],
  source: Source,
): Promise<Answer[]> {
  const drawnOnes = await Promise.all(
    campaign.questions.map((question, place) => {
      const answer = answers[place];
      const { name, labels, kind } = question;
      if (kind === "table") return SPREAD; // it is made of the others
      if (answer !== SPREAD) return checked(question, answer);
      return drawn([source("spread", name)], (own) => own!.below(labels.length));
    }),
  );
  return tabled(campaign.questions, drawnOnes);
}

/** Refuse what `encode` does not make: a law is for its own domain only. */
function checked({ labels, missing }: Question, answer: Answer | undefined): Answer {
  const items = labels.length + Number(missing);
  const fits = labels.length
    ? Number.isInteger(answer) && answer! >= 0 && answer! < items
    : Math.abs(answer!) <= 1 || (missing && Object.is(answer, NaN));
  if (fits) return answer!;
  throw new MurmurationError("input", "this is no encoded answer. Nothing was sent.");
}

/** Draw which cells answer, each at the level that was chosen for its attribute. */
export async function askedCells(
  campaign: Campaign,
  level: Level | undefined,
  which: Stream,
): Promise<number[]> {
  const { strategy, sample, ends } = campaign;
  const cells = cellsAt(campaign, level);
  if (strategy !== "sample") return cells;
  const asked = await drawn([which], (own) =>
    named({ groups: cells.length, many: sample, ends }, own!),
  );
  return asked.map((group) => cells[group]!);
}

/** Return the cell of each attribute (or the one of all together) at the level that was chosen. */
export function cellsAt(
  { levels, questions, cells }: Campaign,
  level: Level | undefined,
): number[] {
  if (!levels.length && level === undefined) return [...cells.keys()];
  return questions.map(({ name, checks }, group) => {
    const chosen = typeof level === "object" ? level[checks || name] : level;
    const place = levels.findIndex((offer) => offer.name === chosen);
    if (place >= 0) return group * levels.length + place;
    throw new MurmurationError("input", "a level is one that is offered. Nothing was sent.");
  });
}

/** Answer one cell: its number, and the bytes of its report. */
export async function entry(
  campaign: Campaign,
  place: number,
  answers: readonly Answer[],
  source: Source,
  round: string,
  begun?: number,
): Promise<number[]> {
  const cell = campaign.cells[place]!;
  const { law, attributes } = cell;
  const values = attributes.map((one) => answers[one]!);
  const [number, written] = [String(place), writtenAnswer(cell, values)];
  if (law.permanent) {
    const { byValue, repeat } = law.permanent;
    const kept = begun ?? (await remembered(cell, number, values[0]!, source));
    // The noise must not follow from a value that has changed since.
    const said = byValue && begun === undefined ? written : eightBytes(kept);
    const noise = source("answer", number, said, round);
    return [place, ...(await drawn([noise], (own) => repeat(kept, own!)))];
  }
  const noise = source("answer", number, written, round);
  const streams = law.tosses ? [noise, source("coin", number, round)] : [noise];
  return [
    place,
    ...(await drawn(streams, (own, coins = own!) => law.respond(values, own!, coins))),
  ];
}

/** Draw a permanent answer, for all rounds or for a spell of them. */
function remembered(
  cell: Cell,
  number: string,
  answer: Answer,
  source: Source,
  ...spell: string[]
): Promise<number> {
  const stream = source(spell.length ? "spell" : "permanent", number, ownedBy(cell, answer), ...spell);
  return drawn([stream], (own) => cell.law.permanent!.remember(answer, own!));
}

/** What a permanent answer belongs to: the value, or nothing where one is for all values. */
function ownedBy(cell: Cell, answer: Answer): Uint8Array {
  return cell.law.permanent?.byValue ? writtenAnswer(cell, [answer]) : new Uint8Array();
}

function eightBytes(answer: number): Uint8Array {
  const octets = new Uint8Array(8);
  new DataView(octets.buffer).setUint32(0, answer, true);
  return octets;
}

/** Return the spell that a period is in, in digits; none where there are no spells. */
function spellOf({ spells, every, rounds, name }: Campaign, round: string): string | undefined {
  if (!spells) return undefined;
  const place = numberOf(every!, round) - spells.first;
  if (place >= 0 && place < rounds) return String(Math.floor(place / spells.length));
  throw new MurmurationError("parameter", `${name} does not ask in ${round}. Nothing was sent.`);
}

/** Return the permanent answer of a spell: as it is kept, or else of the value that there is now,
 * with what is to be kept. */
async function begunWith(
  campaign: Campaign,
  place: number,
  answers: readonly Answer[],
  keyed: Keyed,
  spell: string,
  kept: DrawOptions["kept"],
): Promise<{ answer: number; memo?: Memo }> {
  const [cell, number] = [campaign.cells[place]!, String(place)];
  const name = hex(await keyed.name("kept", number, spell));
  const known = await kept?.(name);
  if (known !== undefined) {
    const octets = Uint8Array.from(known.match(/../g)!, (digits) => parseInt(digits, 16));
    const shown = await masked(keyed, number, spell, octets.slice(0, NONCE_BYTES), octets.slice(NONCE_BYTES));
    return { answer: new DataView(shown.buffer).getUint32(0, true) };
  }
  const source: Source = (...parts) => keyed.stream(...parts);
  const own = answers[cell.attributes[0]!]!;
  const answer = await remembered(cell, number, own, source, spell);
  const nonce = crypto.getRandomValues(new Uint8Array(NONCE_BYTES));
  const hidden = hex(nonce) + hex(await masked(keyed, number, spell, nonce, eightBytes(answer)));
  return { answer, memo: { name, charge: cell.law.charge, answer: hidden } };
}

/** Hide a permanent answer of a spell, or show it: the two are one. */
async function masked(
  keyed: Keyed,
  cell: string,
  spell: string,
  nonce: Uint8Array,
  octets: Uint8Array,
): Promise<Uint8Array<ArrayBuffer>> {
  const mask = await keyed.name("mask", cell, spell, nonce);
  return Uint8Array.from(octets, (octet, i) => octet ^ mask[i]!);
}

/** Write an answer: the place of a label as a 64-bit integer, a number as a double; little-endian,
 * one after the other. */
function writtenAnswer({ law }: Cell, values: readonly Answer[]): Uint8Array {
  const octets = new DataView(new ArrayBuffer(8 * values.length));
  const sizes = law.takes.kind === "box" ? law.takes.sizes : [law.takes.kind === "items" ? 1 : 0];
  values.forEach((value, i) => {
    if (sizes[i]) octets.setUint32(8 * i, value, true);
    else octets.setFloat64(8 * i, Number.isNaN(value) ? NONE : value + 0, true);
  });
  return new Uint8Array(octets.buffer);
}

/** The permanent answers that a report rests on; and, where it is paid for in advance, "no answer"
 * of every cell. */
function paidFor(campaign: Campaign, asked: readonly number[], answers: readonly Answer[]) {
  const named = asked.map((place) => ({
    place,
    answer: answers[campaign.cells[place]!.attributes[0]!]!,
  }));
  const reserved = campaign.cells.map(({ attributes }, place) => ({
    place,
    answer: campaign.questions[attributes[0]!]!.labels.length,
  }));
  const all = campaign.prepaysNone ? [...named, ...reserved] : named;
  return all.filter(({ place }) => campaign.cells[place]!.law.permanent);
}

async function memo(
  campaign: Campaign,
  paid: { place: number; answer: Answer },
  keyed: Keyed,
): Promise<Memo> {
  const cell = campaign.cells[paid.place]!;
  const name = await keyed.name("paid", String(paid.place), ownedBy(cell, paid.answer));
  return { name: hex(name), charge: cell.law.charge };
}
