/** A person's device: asks the ledger first, draws once, and sends what the ledger holds.
 *
 *     open         the campaign, from its address; audited, pinned, held against a witness
 *     encode       the campaign's rule for values outside the range
 *     draw         by words that follow from the person's secret: asked again, the same again
 *     charge       durably, with the bytes: refused here, nothing has left the device
 *     send         those bytes; again and again if need be, never fresh noise
 *     acknowledge  what the collector said
 *
 *     const client = await Client.open("https://collector.example/v1/campaigns/phones");
 *     await client.report({ phone: "ios" });
 */

import { type Address, address } from "./address.js";
import { encode, misfitsOf } from "./answers.js";
import { lossAt } from "./bounds.js";
import { approximate, type Cost, exact, sum } from "./cost.js";
import { readDocument } from "./document.js";
import { MurmurationError } from "./errors.js";
import { example, explain } from "./explain.js";
import { type Charge, type Charged, Ledger } from "./ledger.js";
import { nameOf, numberOf, openAt } from "./periods.js";
import { MOST_DOCUMENT_BYTES } from "./protocol.js";
import { cellsAt, draw } from "./report.js";
import { deliver, get, outcome, type Patience, PATIENCE, reason } from "./sending.js";
import { BrowserStore, type Entry, type Limits, type Store, USUAL } from "./store.js";
import type { Answer, Campaign, Explained, Law, Level, Misfit, RawAnswers, Report } from "./types.js";
import { drawn, Keyed } from "./words.js";

export interface ClientOptions {
  /** Where the person's book is kept; the browser's storage, if it is left out. */
  readonly store?: Store | undefined;
  /** Lower limits than 4 on a report, 8 on a collector, 16 on everything. */
  readonly limits?: Partial<Limits<number>> | undefined;
  /** The person's 32 bytes, where they are kept elsewhere. */
  readonly secret?: Uint8Array | undefined;
  /** The campaign's digest, as the app knows it. */
  readonly digest?: string | undefined;
  /** The campaign's address at another collector, which must show the same digest. */
  readonly witness?: string | undefined;
  /** Of a training: digests of rounds that the app knows, by their numbers. */
  readonly rounds?: Readonly<Record<number, string>> | undefined;
  /** The device's token, where the campaign asks for one; or the one for this device alone. */
  readonly token?: string | undefined;
  /** What a law that breaks its promise costs, in the campaign's own words: the person agrees. */
  readonly acceptLoss?: string | undefined;
  /** Refuse, where the campaign says so, what is outside a range or a list, and be silent: silence
   * tells that the answer is outside. Else the device sends by the other rule. */
  readonly mayBeSilent?: boolean | undefined;
  /** `"error"`: an answer that does not fit is an error of kind `input`, with its `attribute` and
   * `reason`, as it always is in `preview`, and nothing is sent. Silence tells that one does not fit, so it needs
   * `mayBeSilent`. Left out, `"tell"`: the app is told, and the report is sent. */
  readonly misfit?: "tell" | "error" | undefined;
  /** Told of each answer that does not fit, each time, before a report is sent; never a value, and
   * never on the wire. Left out: `console.warn` says it. */
  readonly onMisfit?: ((misfits: readonly Misfit[]) => void) | undefined;
  readonly allowPlainHttp?: boolean | undefined;
  readonly patience?: Patience | undefined;
}

/** For what a report is made. */
export interface Occasion {
  readonly level?: Level | undefined;
  /** Where a question is asked again: today, unless told otherwise. Where it comes back by
   * periods, a period's name, or a date in it. */
  readonly round?: string | undefined;
}

/** What became of a report. */
export interface Receipt {
  readonly campaign: string;
  readonly round: string;
  readonly reportId: string;
  /** What this call was charged; 0 where it was paid for before. */
  readonly epsilon: number;
  /** "stored", "duplicate" (it had arrived before), or "refused:<reason>". */
  readonly outcome: string;
  /** False where the question had a report already: the answers of this call were not used. */
  readonly fresh: boolean;
  /** The report as it was sent; null where it is not kept. */
  readonly report: string | null;
  /** The answers of this call that did not fit: they count by the campaign's rule. */
  readonly misfits: readonly Misfit[];
  /** The limit that did not hold this report (collector, lifetime or campaign): "no answer" was
   * sent instead, at no cost. Empty where the answers were sent. */
  readonly outOfBudget: string;
}

/** What would be sent, or what was. Nothing is sent, charged or kept by looking. */
export interface Preview {
  /** For each attribute that a report may be about, how likely what is. */
  readonly explained: readonly Explained[];
  /** Drawn as a report would be, by other words, and thrown away: for the person's own eyes.
   * Whoever is shown many of them can average the noise away. */
  readonly example: Report | null;
  /** The report that was made; its bytes once they were sent. */
  readonly made: Entry | null;
  /** The exact loss of one report at this level. */
  readonly loss: number;
  /** What one report costs at most, at this level, and what the first one costs more, for "no
   * answer" later on. */
  readonly most: number;
  readonly reserved: number;
}

/** What was spent here: on this campaign and this collector, in all, and what is left. */
export interface Spending {
  readonly campaign: number;
  readonly collector: number;
  readonly all: number;
  /** Neither spent nor set aside for reports of a question that comes back. */
  readonly left: number;
  readonly limits: Limits<number>;
  readonly totals: readonly { origin: string; campaign: string; epsilon: number }[];
}

/** One person's device in one campaign.
 *
 * A campaign that is asked once is answered once, whatever is called later. A repeated one is
 * answered once per round, and no more often than the campaign says, by the permanent answer for
 * the value with fresh noise on it. A device that must not spend more says "no answer", at no cost,
 * where all questions allow for that, and the receipt says so; else it is silent, and that can be
 * seen.
 */
export class Client {
  private constructor(
    readonly campaign: Campaign,
    readonly address: Address,
    readonly ledger: Ledger,
    private readonly options: ClientOptions,
  ) {}

  /** Fetch a campaign, check it, and open the person's ledger. */
  static async open(url: string, options: ClientOptions = {}): Promise<Client> {
    requireSilence(options);
    const where = address(url, options.allowPlainHttp);
    const campaign = await fetched(where, options.digest);
    await requireWitness(campaign, where, options);
    requireConsent(campaign, options.acceptLoss);
    const ledger = new Ledger(options.store ?? new BrowserStore());
    await lowered(ledger, options.limits);
    return new Client(campaign, where, ledger, options);
  }

  // --- sending ---------------------------------------------------------------------------------

  /** Answer the campaign's questions; say what became of the report.
   *
   * Refused before anything is drawn: answers that are missing or have no rule, a campaign that is
   * not open. Refused before anything is sent: a report that costs too much (`budget`). On an error
   * of kind `send` the report is charged and kept: call `resend` later, or this again; both send
   * the same bytes.
   */
  async report(answers: RawAnswers, occasion: Occasion = {}): Promise<Receipt> {
    const { campaign, address } = this;
    const misfits = misfitsOf(campaign, answers);
    refuseMisfits(misfits, this.options.misfit === "error");
    const encoded = encode(campaign, answers, this.options.mayBeSilent);
    const round = this.#round(occasion.round);
    tell(misfits, this.options);
    const known = await this.ledger.find(address.origin, campaign.digest, round);
    if (known) return { ...(await this.#sent({ entry: known, cost: 0n, fresh: false })), misfits };
    this.#requireOpen(round);
    await this.#requireSmall();
    const [charged, outOfBudget] = await this.#answered(encoded, occasion.level, round, misfits);
    return { ...(await this.#sent(charged)), misfits, outOfBudget };
  }

  /** Send what this campaign has charged and nobody has acknowledged: the same bytes. */
  async resend(): Promise<Receipt[]> {
    const receipts: Receipt[] = [];
    for (const entry of await this.ledger.pending(this.address.origin)) {
      if (entry.digest !== this.campaign.digest) continue;
      receipts.push(await this.#sent({ entry, cost: 0n, fresh: false }));
    }
    return receipts;
  }

  /** Send the bytes that the ledger holds, and note the answer; one tab at a time. */
  async #sent({ entry, cost, fresh }: Charged): Promise<Receipt> {
    const { origin, digest, round, reportId, campaign } = entry;
    const now = await this.ledger.store.alone(`send ${reportId}`, async () => {
      const kept = (await this.ledger.find(origin, digest, round)) ?? entry;
      return kept.outcome === null ? this.#delivered(kept) : kept;
    });
    const [epsilon, answer] = [approximate(cost), now.outcome ?? ""];
    const made = { campaign, round, reportId, epsilon, outcome: answer, fresh, report: now.report };
    return { ...made, misfits: [], outOfBudget: "" };
  }

  /** Reports of many rounds, side by side, show when the value behind them changed: their bytes are
   * not kept once they have arrived. */
  async #delivered(entry: Entry): Promise<Entry> {
    const { token, patience = PATIENCE } = this.options;
    try {
      const answer = outcome(await deliver(this.address, entry.report ?? "", token, patience));
      return await this.#noted(entry, answer);
    } catch (problem) {
      if (!(problem instanceof MurmurationError && problem.kind === "send")) throw problem;
      const kept = "The report is kept: resend sends it as it is.";
      throw new MurmurationError("send", `${problem.message}. ${kept}`, problem.reason);
    }
  }

  /** Note the answer. It was sent, whatever becomes of that: nobody may be told that it was not. */
  async #noted({ reportId }: Entry, answer: string): Promise<Entry> {
    try {
      return await this.ledger.acknowledge(reportId, answer, this.campaign.repeated);
    } catch {
      throw new MurmurationError("send", "it was sent, and the answer cannot be noted down");
    }
  }

  // --- drawing and charging --------------------------------------------------------------------

  /** Draw a report and charge it; where that is too much, say "no answer", if it may be said.
   *
   * Running out depends on what a person has told others, and on the values that they have had:
   * silence would tell about both.
   */
  async #answered(
    answers: Answer[],
    level: Level | undefined,
    round: string,
    misfits: readonly Misfit[],
  ): Promise<[Charged, string]> {
    const charged = async (): Promise<[Charged, string]> => {
      try {
        return [await this.#charged(answers, level, round, misfits), ""];
      } catch (problem) {
        const spent = problem instanceof MurmurationError && problem.kind === "budget";
        if (!spent || problem.reason === "rounds" || !this.campaign.canSayNone) throw problem;
        const none = encode(this.campaign, {});
        return [await this.#charged(none, level, round, misfits, true), problem.reason];
      }
    };
    // What a spell begins with is drawn and kept by one tab.
    if (!this.campaign.spells) return charged();
    return this.ledger.store.alone(`spell ${this.campaign.digest}`, charged);
  }

  /** Draw a report and charge it. "No answer" is free: it is the same whatever the answers are. */
  async #charged(
    answers: Answer[],
    level: Level | undefined,
    round: string,
    misfits: readonly Misfit[],
    free = false,
  ): Promise<Charged> {
    const { campaign, ledger } = this;
    const { origin } = this.address;
    const secret = await ledger.secret(this.options.secret);
    const kept = (name: string) => ledger.kept(name);
    const made = await draw(campaign, answers, { secret, origin, round, level, kept });
    const wanted: Charge = {
      ...{ origin, round, campaign: campaign.name, digest: campaign.digest },
      purpose: campaign.purpose,
      cost: free ? 0n : total(campaign, made.charges, false),
      memos: made.memos
        .filter(({ answer }) => !free || answer !== undefined)
        .map(({ name, charge, answer }) => ({ name, cost: free ? 0n : exact(charge), answer })),
      limit: free ? Infinity : limitOf(campaign),
      ...(free || campaign.rounds === 1 || campaign.prepaysNone ? {} : { aside: limitOf(campaign) }),
      rounds: campaign.rounds,
      report: new TextDecoder().decode(made.bytes),
      reportId: made.report.id,
      misfits,
    };
    return ledger.charge(wanted);
  }

  // --- what is asked for -----------------------------------------------------------------------

  /** Return the occasion: today, unless told otherwise; none where one is asked once. */
  #round(round = ""): string {
    const { every } = this.campaign;
    if (every !== null) return nameOf(every, numberOf(every, round || new Date().toISOString()));
    if (this.campaign.repeated) return round || new Date().toISOString().slice(0, 10);
    if (!round) return "";
    throw new MurmurationError("parameter", `${this.campaign.name} is asked once: it has no rounds`);
  }

  /** Refuse, before anything is charged, what the collector would refuse. */
  #requireOpen(round: string): void {
    const { name, opens, closes, upload, every, grace, spells, rounds } = this.campaign;
    const now = new Date();
    if ((opens && now < opens) || (closes && now >= closes)) {
      throw new MurmurationError(
        "parameter",
        `${name} has not opened yet, or has closed. Nothing was sent.`,
        "closed",
      );
    }
    if (every !== null) {
      const [first, last] = openAt(every, now, opens, grace);
      const period = numberOf(every, round);
      const asked = !spells || (period >= spells.first && period < spells.first + rounds);
      if (!asked || period < first || period > last) {
        throw new MurmurationError(
          "parameter",
          `${name} takes no reports of ${round} now: it is over, or has not begun. Nothing was sent.`,
          "closed",
        );
      }
    }
    if (upload !== "open" && this.options.token === undefined) {
      throw new MurmurationError("parameter", `${name} needs a device's token. Nothing was sent.`, "token");
    }
  }

  /** Refuse a campaign whose reports may cost more than the person gives for one.
   *
   * The most that a report can cost, not what this one would: that may depend on the answer.
   */
  async #requireSmall(): Promise<void> {
    const limit = (await this.ledger.limits()).report;
    const cost = most(this.campaign);
    if (cost <= limit) return;
    throw new MurmurationError(
      "budget",
      `${this.campaign.name}: one report may cost ${approximate(cost)}, and the person's limit on ` +
        `a report is ${approximate(limit)}. Nothing was sent.`,
      "report",
    );
  }

  // --- for the person --------------------------------------------------------------------------

  /** Return the report of this question and round, if it was made; its bytes once they were sent.
   *
   * The bytes follow from the secret and the answer: who saw them first could choose their noise.
   */
  async made(round?: string): Promise<Entry | null> {
    const { origin } = this.address;
    const found = await this.ledger.find(origin, this.campaign.digest, this.#round(round));
    return found ? { ...found, report: found.outcome === null ? null : found.report } : null;
  }

  /** Say what would be sent, or what was; refuse answers that do not fit: nothing is sent here, so
   * nobody learns from it. */
  async preview(answers: RawAnswers, occasion: Occasion = {}): Promise<Preview> {
    const { campaign } = this;
    refuseMisfits(misfitsOf(campaign, answers), true);
    const encoded = encode(campaign, answers, this.options.mayBeSilent);
    const made = await this.made(occasion.round);
    const explained = explain(campaign, encoded, occasion.level);
    const reserved = campaign.prepaysNone ? campaign.cells.map((cell) => cell.law.charge) : [];
    return {
      explained,
      example: made
        ? null
        : await example(campaign, encoded, occasion.level, this.#round(occasion.round)),
      made,
      loss: lossAt(campaign, occasion.level),
      most: this.most(occasion.level),
      reserved: approximate(sum(reserved.map(exact))),
    };
  }

  /** Return the most that a report costs at a level, whatever is answered. */
  most(level?: Level): number {
    const { campaign } = this;
    const laws = cellsAt(campaign, level).map((place) => campaign.cells[place]!.law);
    return approximate(costliest(campaign, laws));
  }

  /** Return the level that a lot gives this device: always the same one. Undefined without levels.
   *
   * It follows from the secret and from nothing that a person says or does.
   */
  async lot(): Promise<string | undefined> {
    const { levels, digest } = this.campaign;
    if (!levels.length) return undefined;
    const secret = await this.ledger.secret(this.options.secret);
    const words = new Keyed(secret, [this.address.origin, digest]).stream("level");
    return levels[await drawn([words], (own) => own.below(levels.length))]!.name;
  }

  /** Return the most open level that spends no more than this of a person's own epsilon. It must not
   * depend on an answer. */
  levelWithin(atMost: number): string {
    const fits = this.campaign.levels.filter(({ epsilon }) => epsilon <= atMost);
    const [most] = fits.sort((a, b) => b.epsilon - a.epsilon);
    if (most) return most.name;
    throw new MurmurationError("input", "no level spends as little as that. Nothing was sent.");
  }

  /** Return what was spent here, and on whom. */
  async spending(): Promise<Spending> {
    const { ledger, address } = this;
    const { report, collector, lifetime } = await ledger.limits();
    const totals = (await ledger.totals()).map(({ cost, ...whose }) => ({
      ...whose,
      epsilon: approximate(cost),
    }));
    return {
      campaign: approximate(await ledger.spent(address.origin, this.campaign.name)),
      collector: approximate(await ledger.spent(address.origin)),
      all: approximate(await ledger.spent()),
      left: approximate(await ledger.remaining()),
      limits: {
        report: approximate(report),
        collector: approximate(collector),
        lifetime: approximate(lifetime),
      },
      totals,
    };
  }
}

// --- the campaign ------------------------------------------------------------------------------

async function fetched(where: Address, digest?: string): Promise<Campaign> {
  const answer = await get(where, MOST_DOCUMENT_BYTES);
  if (answer.status !== 200) {
    const hint = answer.status === 404 ? "; an address ends in /v1/campaigns/NAME" : "";
    throw new MurmurationError("send", `no campaign from ${where.url}: ${reason(answer)}${hint}`);
  }
  return readDocument(answer.data, { address: where.url, digest });
}

/** Refuse a campaign that somebody else does not show in the same words. */
async function requireWitness(
  campaign: Campaign,
  where: Address,
  { witness, allowPlainHttp }: ClientOptions,
): Promise<void> {
  if (witness === undefined) return;
  const other = address(witness, allowPlainHttp);
  if (other.origin === where.origin) {
    throw new MurmurationError("parameter", "a witness is another collector than the one asked");
  }
  await fetched(other, campaign.digest);
}

/** Lower the person's limits; refuse an app that would have higher ones than a new ledger has. */
export async function lowered(ledger: Ledger, limits: ClientOptions["limits"] = {}): Promise<void> {
  requireLimits(limits);
  const now = await ledger.limits();
  for (const [name, most] of Object.entries(limits)) {
    const key = name as keyof typeof USUAL;
    if (most === undefined || exact(most) <= exact(USUAL[key]) || exact(most) <= now[key]) continue;
    throw new MurmurationError(
      "parameter",
      `the ${name} limit is ${approximate(now[key])}, and ${most} is higher: an app can lower a ` +
        "limit, and only the person raises one (Ledger.raiseLimit)",
    );
  }
  await ledger.lower(limits);
}

/** Refuse what is no limit: a name that none has, or what is no number. */
function requireLimits(limits: unknown): void {
  const given = typeof limits === "object" && limits !== null ? Object.entries(limits) : [["limits"]];
  for (const [name, most] of given) {
    const isNumber = most === undefined || (typeof most === "number" && most >= 0);
    if (Object.hasOwn(USUAL, name as string) && isNumber) continue;
    throw new MurmurationError(
      "parameter",
      `limits are numbers, 0 or more, for ${Object.keys(USUAL).join(", ")}; see ${String(name)}`,
    );
  }
}

/** Refuse a device that is silent about what does not fit, unless the person agrees to silence. */
export function requireSilence({ misfit = "tell", mayBeSilent }: ClientOptions): void {
  if (misfit !== "tell" && misfit !== "error") {
    throw new MurmurationError("parameter", 'misfit is "tell" or "error"');
  }
  if (misfit === "tell" || mayBeSilent) return;
  throw new MurmurationError(
    "parameter",
    'misfit: "error" makes a device silent where an answer does not fit, and that can be seen: it ' +
      "tells that the answer does not fit. Say mayBeSilent: true to agree to that",
  );
}

/** Return the answers that do not fit, having told the app; or refuse them, where it says so. */
export function misfitsTold(
  campaign: Pick<Campaign, "questions">,
  answers: RawAnswers,
  options: ClientOptions,
): Misfit[] {
  const misfits = misfitsOf(campaign, answers);
  refuseMisfits(misfits, options.misfit === "error");
  tell(misfits, options);
  return misfits;
}

function refuseMisfits(misfits: readonly Misfit[], refuse: boolean): void {
  if (!refuse || !misfits.length) return;
  const [{ attribute, reason }] = misfits as [Misfit];
  throw new MurmurationError("input", `${inWords(misfits)}. Nothing was sent.`, reason, attribute);
}

function tell(misfits: readonly Misfit[], { onMisfit = warn }: ClientOptions): void {
  if (misfits.length) onMisfit(misfits);
}

function inWords(misfits: readonly Misfit[]): string {
  return misfits.map(({ attribute, problem }) => `${attribute}: ${problem}`).join("; ");
}

function warn(misfits: readonly Misfit[]): void {
  console.warn(
    `murmuration: answers that do not fit what the campaign asks: ${inWords(misfits)}. They count ` +
      "as no answer, or by the rule `outside`, as the campaign says",
  );
}

/** Refuse laws that break their promise, unless the person's side says so too. */
function requireConsent({ name, acceptLoss }: Campaign, words: string | undefined): void {
  if (acceptLoss === null || acceptLoss === words) return;
  throw new MurmurationError(
    "promise",
    `${name} costs more than it promises: ${acceptLoss}. To agree to that, say acceptLoss with ` +
      "these words, and raise the limits that it needs.",
  );
}

// --- what it costs -----------------------------------------------------------------------------

/** The most that one report can cost, at any level: the costliest cells that it may have. */
function most(campaign: Campaign): Cost {
  return total(campaign, campaign.most, campaign.cells.some((cell) => cell.law.permanent));
}

/** The most that a campaign may cost in all: its own limit, or one report's. */
function limitOf(campaign: Campaign): Cost {
  return campaign.limit === null ? most(campaign) : exact(campaign.limit);
}

/** The most that a report about these can cost: it names all of them, or the costliest. */
function costliest(campaign: Campaign, laws: readonly Law[]): Cost {
  const charges = laws.map((law) => law.charge).sort((one, other) => other - one);
  const named = campaign.strategy === "sample" ? charges.slice(0, campaign.sample) : charges;
  return total(campaign, named, laws.some((law) => law.permanent));
}

/** Add up costs, in decimals.
 *
 * All entries of a report together were audited to keep the campaign's epsilon, so what decimals
 * add to that in the last digit is no cost.
 */
function total(campaign: Campaign, charges: readonly number[], again: boolean): Cost {
  const cost = sum(charges.map(exact));
  const epsilon = exact(campaign.epsilon);
  return campaign.acceptLoss !== null || again || cost < epsilon ? cost : epsilon;
}
