/** A device in a training: one report in all rounds, charged once, never a second answer.
 *
 *     const client = await TrainingClient.open("https://collector.example/v1/campaigns/buys");
 *     await client.train({ age: 44, home: "own" }, "yes");
 *
 * The report is charged *held*, then let go, then sent. Only what was never let go is taken back:
 * the page was closed in between, and the round is closed when it comes back. From letting go on the
 * report counts as sent: the charge stays, and "stale-round" and "round-full" are the last answers.
 */

import type { ClientOptions, Receipt } from "../client.js";
import {
  type Address,
  address,
  approximate,
  BrowserStore,
  type Cost,
  deliver,
  drawn,
  encode,
  type Entry,
  exact,
  get,
  hex,
  Keyed,
  Ledger,
  lowered,
  misfitsTold,
  MurmurationError,
  named,
  outcome,
  PATIENCE,
  reason,
  reportBytes,
  requireSilence,
  spread,
  sum,
  writtenCost,
} from "../core.js";
import { MOST_DOCUMENT_BYTES, MOST_ROUND_BYTES } from "../protocol.js";
import type { Campaign, Misfit, Raw, RawAnswers, Report } from "../types.js";
import { type Digests, followed, joined, refusal, type RoundLink } from "./chain.js";
import { type Round, type Training, readRound, readTraining } from "./document.js";
import { valuesOf } from "./questions.js";

/** A person's features as numbers, and the target. */
export interface Encoded {
  readonly x: readonly number[];
  readonly y: number;
}

/** Turn raw features and the target into numbers, by the training's rule. */
export async function encoded(
  training: Training,
  features: RawAnswers,
  target: Raw,
  keyed: Keyed,
): Promise<Encoded> {
  const asked = training as unknown as Campaign; // of which only the questions are looked at
  const raw = { ...features, [training.target.name]: target };
  const answers = await spread(asked, encode(asked, raw), (...parts) => keyed.stream(...parts));
  const x = training.features.flatMap(({ question, typical: [middle, half], width }, i) => {
    const value = answers[i]!;
    if (question.labels.length) {
      return Array.from({ length: width }, (_, label) => (label === value ? 1 : 0));
    }
    return [(half === 1 && middle === 0 ? value : (value - middle) / half) + 0];
  });
  const y = answers.at(-1)!;
  return { x, y: training.target.labels.length ? (y === 1 ? 1 : -1) : y + 0 };
}

/** Draw the report of a round: role by a public coin, noise by features and target. */
export async function answered(
  training: Training,
  round: Round,
  { x, y }: Encoded,
  secret: Uint8Array,
  origin: string,
): Promise<Report> {
  const keyed = new Keyed(secret, [origin, round.digest]);
  const [role] = await drawn([keyed.stream("which", "")], (own) => named(round.sample, own!));
  const asked = round.roles[role!]!;
  const law = training.laws[asked.law]!;
  const values = valuesOf(asked, x, y, training.objective);
  const octets = new DataView(new ArrayBuffer(8 * (x.length + 1)));
  [...x, y].forEach((value, i) => octets.setFloat64(8 * i, value, true));
  const place = String(role);
  const streams = [
    keyed.stream("answer", place, new Uint8Array(octets.buffer), ""),
    ...(law.tosses ? [keyed.stream("coin", place, "")] : []),
  ];
  const sent = await drawn(streams, (own, coins = own!) => law.respond(values, own!, coins));
  const id = await new Keyed(secret, [origin, training.digest]).name("id", "");
  return { wire: 1, digest: round.digest, id: hex(id.subarray(0, 16)), entries: [[role!, ...sent]] };
}

/** One person's device in one training. */
export class TrainingClient {
  private constructor(
    readonly training: Training,
    readonly address: Address,
    readonly ledger: Ledger,
    private readonly options: ClientOptions,
  ) {}

  /** Fetch a training, check it, and open the person's ledger. */
  static async open(url: string, options: ClientOptions = {}): Promise<TrainingClient> {
    requireSilence(options);
    const where = address(url, options.allowPlainHttp);
    const training = await fetched(where, options.digest);
    const other = witness(where, options);
    if (other) await fetched(other, training.digest);
    const ledger = new Ledger(options.store ?? new BrowserStore());
    await lowered(ledger, options.limits);
    return new TrainingClient(training, where, ledger, options);
  }

  /** Answer the open round, once in all rounds; say what became of the report.
   *
   * Where no round is open, an error of kind `parameter` and reason `no-round` says so, and nothing
   * is charged: come back later. On an error of kind `send` the report is charged and kept: call
   * this again; it sends the same bytes.
   */
  async train(features: RawAnswers, target: Raw): Promise<Receipt> {
    const { training, address: where } = this;
    const secret = await this.ledger.secret(this.options.secret);
    const keyed = new Keyed(secret, [where.origin, training.digest]);
    const raw = { ...features, [training.target.name]: target };
    const misfits = misfitsTold(training, raw, this.options);
    const answer = await encoded(training, features, target, keyed);
    const receipt = await this.#trained(answer, secret, misfits);
    return { ...receipt, misfits };
  }

  #trained(answer: Encoded, secret: Uint8Array, misfits: readonly Misfit[]): Promise<Receipt> {
    const { training, address: where } = this;
    return this.ledger.store.alone(`train ${training.digest}`, async () => {
      const known = await this.ledger.find(where.origin, training.digest, "");
      if (known && !known.held) return this.#sent(known, 0n, false);
      const round = await this.#open(known);
      await this.#note([round]);
      if (known) {
        if ((JSON.parse(known.report!) as Report).digest === round.digest) {
          return this.#sent(await this.#letGo(known), 0n, false);
        }
        await this.#takeBack(known);
      }
      const report = await answered(training, round, answer, secret, where.origin);
      const { entry, cost } = await this.#charged(report, misfits);
      return this.#sent(await this.#letGo(entry), cost, true);
    });
  }

  /** Return the round that is open; if none is, what was never let go is taken back. */
  async #open(known: Entry | undefined): Promise<Round> {
    const { training, options, address: where } = this;
    const { name, opens, closes, upload } = training;
    const now = new Date();
    if ((opens && now < opens) || (closes && now >= closes)) {
      throw refused(`${name} has not opened yet, or has closed. Nothing was sent.`, "closed");
    }
    if (upload !== "open" && options.token === undefined) {
      throw refused(`${name} needs a device's token. Nothing was sent.`, "token");
    }
    await this.#requireSmall();
    const round = await fetchedRound(where, "/round", training);
    if (!round) {
      if (known) await this.#takeBack(known);
      throw refused(`no round of ${name} is open now. Nothing was sent.`, "no-round");
    }
    await followed(round, await this.#known(), (number) => earlier(where, number, training));
    const other = witness(where, options);
    if (other) {
      const shown = await fetchedRound(other, `/rounds/${round.number}`, training);
      if (shown?.digest !== round.digest) {
        throw new MurmurationError(
          "mismatch",
          `${other.url} does not show this round: this device may have been given one of its own. ` +
            "Nothing was sent.",
        );
      }
    }
    return round;
  }

  /** Return the rounds up to the open one, each checked to follow the one before, and to agree with
   * those that this device was shown before and with `options.rounds`. The last digest stands for
   * all of them: compare it with another device's. Nothing is sent. */
  async chain(): Promise<RoundLink[]> {
    const { training, address: where } = this;
    const round = await fetchedRound(where, "/round", training);
    if (!round) return [];
    const fetch = (number: number) => earlier(where, number, training);
    const links = await followed(round, await this.#known(), fetch, 0);
    await this.#note(links);
    return links.map(({ number, digest, after }) => ({ number, digest, after }));
  }

  /** Return the digests of rounds that this device was shown or the app knows, and the campaign's. */
  async #known(): Promise<Digests> {
    const shown = await this.ledger.store.read((book) => book.rounds?.[this.#place()] ?? {});
    return { ...joined(shown, this.options.rounds ?? {}), 0: this.training.digest };
  }

  #note(links: readonly RoundLink[]): Promise<void> {
    return this.ledger.store.change((book) => {
      const shown = { ...book.rounds?.[this.#place()] };
      for (const { number, digest } of links) shown[number] = digest;
      book.rounds = { ...book.rounds, [this.#place()]: shown };
    });
  }

  #place(): string {
    return `${this.address.origin} ${this.training.digest}`;
  }

  async #requireSmall(): Promise<void> {
    const limit = (await this.ledger.limits()).report;
    if (this.#most() <= limit) return;
    throw new MurmurationError(
      "budget",
      `${this.training.name}: one report costs ${approximate(this.#most())}, and the person's ` +
        `limit on a report is ${approximate(limit)}. Nothing was sent.`,
      "report",
    );
  }

  #most(): Cost {
    const [charge, epsilon] = [exact(this.training.charge), exact(this.training.epsilon)];
    return charge < epsilon ? charge : epsilon;
  }

  #charged(report: Report, misfits: readonly Misfit[]) {
    const { training, address: where } = this;
    const cost = this.#most();
    return this.ledger.charge({
      ...{ origin: where.origin, campaign: training.name, digest: training.digest, round: "" },
      ...{ purpose: training.purpose, cost, limit: cost, memos: [], rounds: 1, held: true },
      report: new TextDecoder().decode(reportBytes(report)),
      reportId: report.id,
      misfits,
    });
  }

  /** From here on these bytes count as sent. */
  #letGo({ reportId }: Entry): Promise<Entry> {
    return this.ledger.store.change((book) => {
      const place = book.entries.findIndex((entry) => entry.reportId === reportId);
      const found = book.entries[place];
      if (!found) throw new MurmurationError("ledger", "it was taken back. Nothing was sent.");
      const { held: _, ...entry } = found;
      return (book.entries[place] = entry);
    });
  }

  /** Delete a report that was never let go, and what it was charged. */
  #takeBack({ reportId }: Entry): Promise<void> {
    return this.ledger.store.change((book) => {
      const found = book.entries.find((entry) => entry.reportId === reportId);
      if (!found?.held) return;
      book.entries = book.entries.filter((entry) => entry !== found);
      book.totals = book.totals.map((total) => {
        if (total.origin !== found.origin || total.campaign !== found.campaign) return total;
        const left = (exact(total.cost) as bigint) - (exact(found.cost) as bigint);
        return { ...total, cost: writtenCost(sum([left])) };
      });
    });
  }

  /** Send the bytes that the ledger holds, and note the answer. */
  async #sent(entry: Entry, cost: Cost, fresh: boolean): Promise<Receipt> {
    const { campaign, round, reportId } = entry;
    let now = entry;
    if (now.outcome === null) {
      const { token, patience = PATIENCE } = this.options;
      const answer = await deliver(this.address, entry.report ?? "", token, patience);
      now = await this.ledger.acknowledge(reportId, outcome(answer), false);
    }
    const epsilon = approximate(cost);
    const { outcome: answer, report } = now;
    const made = { campaign, round, reportId, epsilon, outcome: answer ?? "", fresh, report };
    return { ...made, misfits: [], outOfBudget: "" };
  }
}

function refused(message: string, why: string): MurmurationError {
  return new MurmurationError("parameter", message, why);
}

function witness(where: Address, { witness: url, allowPlainHttp }: ClientOptions): Address | null {
  if (url === undefined) return null;
  const other = address(url, allowPlainHttp);
  if (other.origin !== where.origin) return other;
  throw new MurmurationError("parameter", "a witness is another collector than the one asked");
}

async function fetched(where: Address, digest?: string): Promise<Training> {
  const answer = await get(where, MOST_DOCUMENT_BYTES);
  if (answer.status !== 200) {
    throw new MurmurationError("send", `no campaign from ${where.url}: ${reason(answer)}`);
  }
  return readTraining(answer.data, { address: where.url, digest });
}

async function earlier(where: Address, number: number, training: Training): Promise<Round> {
  const round = await fetchedRound(where, `/rounds/${number}`, training);
  if (round?.number !== number) throw refusal(number + 1, "does-not-follow");
  return round;
}

async function fetchedRound(
  where: Address,
  below: string,
  training: Training,
): Promise<Round | null> {
  const answer = await get({ ...where, url: where.url + below }, MOST_ROUND_BYTES);
  if (answer.status === 404 && reason(answer) === "no-round") return null;
  if (answer.status !== 200) {
    throw new MurmurationError("send", `no round from ${where.url}: ${reason(answer)}`);
  }
  return readRound(answer.data, training);
}
