/** The durable record of what a person's device has spent.
 *
 *     charge    one transaction: may it be spent? then the charge and the exact bytes to send
 *     (send)    whatever the network does
 *     acknowledge
 *
 * A page that is closed before the charge has sent nothing; one that is closed after it finds the
 * report in `pending` and sends the same bytes again, never fresh noise. So spent is never less than
 * sent. Entries, limits and pending reports belong to a collector's origin: what one collector was
 * told is no other's business, and a name that two of them use is two campaigns.
 */

import { hostOf } from "./address.js";
import { approximate, type Cost, exact, larger, less, sum, written } from "./cost.js";
import { MurmurationError } from "./errors.js";
import type { Book, Entry, Limits, Misfits, Paid, Store } from "./store.js";
import type { Misfit } from "./types.js";

/** A permanent answer about one value: charged when it is new, and never again. */
export interface Memo {
  /** Follows from the secret and the value, and tells neither. */
  readonly name: string;
  readonly cost: Cost;
  /** What is kept until the end of a spell, hidden. */
  readonly answer?: string | undefined;
}

/** What is charged, and the bytes that will be sent. */
export interface Charge {
  readonly origin: string;
  readonly campaign: string;
  readonly digest: string;
  readonly purpose: string;
  readonly round: string;
  readonly cost: Cost;
  readonly memos: readonly Memo[];
  /** The most that this campaign may ever cost, and how many reports it asks for. */
  readonly limit: Cost;
  readonly rounds: number;
  /** What all reports of the question may cost, set aside with the first one. */
  readonly aside?: Cost | undefined;
  readonly report: string;
  readonly reportId: string;
  /** It may still be taken back: it is not sent before it was let go. */
  readonly held?: true;
  /** The answers that did not fit: counted with the report, here and nowhere else. */
  readonly misfits?: readonly Misfit[] | undefined;
}

/** A report that was made, and what this call has charged for it. */
export interface Charged {
  readonly entry: Entry;
  readonly cost: Cost;
  /** False where the question had a report already: nothing was charged. */
  readonly fresh: boolean;
}

const LIMITS = ["report", "collector", "lifetime"] as const;

export class Ledger {
  constructor(readonly store: Store) {}

  /** Return the device's secret: made once, unless the app brings its own. */
  secret(given?: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
    if (given && given.length !== 32) {
      throw new MurmurationError("parameter", "a secret has 32 bytes");
    }
    return this.store.change((book) => {
      const same = !given || given.every((octet, place) => octet === book.secret[place]);
      if (!same && book.entries.length) {
        throw new MurmurationError("mismatch", "this ledger has another secret. Nothing was sent.");
      }
      if (!same) book.secret = Uint8Array.from(given);
      return book.secret;
    });
  }

  // --- limits ----------------------------------------------------------------------------------

  /** Return the person's limits. */
  limits(): Promise<Limits<Cost>> {
    return this.store.read(limitsOf);
  }

  /** Lower those of the limits that are given; a lower one that the person has set stays. */
  lower(wanted: Partial<Limits<number>>): Promise<void> {
    return this.store.change((book) => {
      for (const name of LIMITS) {
        const most = wanted[name];
        if (most !== undefined && exact(most) < exact(book.limits[name])) {
          book.limits[name] = written(exact(most));
        }
      }
    });
  }

  /** Raise a limit, or take it away with Infinity. For the person alone, never a campaign. */
  raiseLimit(name: keyof Limits<unknown>, most: number): Promise<void> {
    const limit = exact(most);
    return this.store.change((book) => {
      if (!LIMITS.includes(name) || limit < exact(book.limits[name])) {
        throw new MurmurationError("parameter", "that is no higher limit: use lower");
      }
      book.limits[name] = written(limit);
    });
  }

  /** Return what is neither spent nor set aside; Infinity if there is no limit. */
  remaining(): Promise<Cost> {
    return this.store.read((book) => {
      const { lifetime } = limitsOf(book);
      return lifetime === Infinity ? lifetime : less(lifetime, committed(book));
    });
  }

  /** Return what was ever charged: in all, by one collector, or by one campaign. */
  spent(origin?: string, campaign?: string): Promise<Cost> {
    return this.store.read((book) => spentBy(book, origin, campaign));
  }

  // --- reports ---------------------------------------------------------------------------------

  /** Charge a report, durably, and return the entry whose `report` is to be sent.
   *
   * Refused, with nothing kept, if with it more than one of the person's limits or the campaign's
   * would be spent, or if the question has as many reports as it asks for. If this question and
   * round have a report already, that one is returned and nothing is charged: send what the entry
   * holds, not what was passed in.
   */
  charge(wanted: Charge): Promise<Charged> {
    return this.store.change((book) => {
      const made = found(book, wanted.origin, wanted.digest, wanted.round);
      if (made) return { entry: made, cost: 0n, fresh: false };
      requireNew(book, wanted);
      const memos = unpaid(book, wanted.memos);
      const cost = sum([wanted.cost, ...memos.map((memo) => memo.cost)]);
      requireAffordable(book, wanted, cost);
      const entry = entryOf(wanted);
      book.entries.push(entry);
      note(book, wanted, memos, cost);
      return { entry, cost, fresh: true };
    });
  }

  /** Return the report that was already made for this collector, question and round. */
  find(origin: string, digest: string, round = ""): Promise<Entry | undefined> {
    return this.store.read((book) => found(book, origin, digest, round));
  }

  /** Return the permanent answer of a spell, hidden, as it is kept. */
  kept(name: string): Promise<string | undefined> {
    return this.store.read((book) => book.kept?.[name]);
  }

  /** Return how many answers did not fit, by attribute and reason: only this device knows. */
  misfits(): Promise<readonly Misfits[]> {
    return this.store.read((book) => book.misfits ?? []);
  }

  /** Return what was charged and not acknowledged, oldest first: send the same bytes again. */
  pending(origin?: string): Promise<Entry[]> {
    return this.store.read((book) =>
      book.entries.filter((entry) => !entry.outcome && (origin ?? entry.origin) === entry.origin),
    );
  }

  /** Return everything that was charged, oldest first. */
  entries(): Promise<Entry[]> {
    return this.store.read((book) => book.entries);
  }

  /** Return what each campaign has ever cost, by collector. */
  totals(): Promise<{ origin: string; campaign: string; cost: Cost }[]> {
    return this.store.read((book) =>
      book.totals.map((total) => ({ ...total, cost: exact(total.cost) })),
    );
  }

  /** Note the collector's answer; a second one is ignored. `forget` deletes the bytes.
   *
   * A refused report stays charged: it has left the device.
   */
  acknowledge(reportId: string, outcome: string, forget: boolean): Promise<Entry> {
    return this.store.change((book) => {
      const place = book.entries.findIndex((entry) => entry.reportId === reportId);
      const entry = book.entries[place];
      if (!entry) throw new MurmurationError("ledger", "no report has this id");
      const report = forget ? null : entry.report;
      return (book.entries[place] = { ...entry, report, outcome: entry.outcome ?? outcome });
    });
  }

  /** Delete the bytes of acknowledged reports; what they cost stays. */
  forgetSent(): Promise<void> {
    return this.store.change((book) => {
      book.entries = book.entries.map((entry) => (entry.outcome ? { ...entry, report: null } : entry));
    });
  }
}

// --- what a book says --------------------------------------------------------------------------

function limitsOf({ limits }: Book): Limits<Cost> {
  const { report, collector, lifetime } = limits;
  return { report: exact(report), collector: exact(collector), lifetime: exact(lifetime) };
}

type Whose = Omit<Paid, "name">;

/** What was spent in all; on a collector, which is a host, whatever the port; or on a campaign. */
function spentBy(book: Book, origin?: string, campaign?: string): Cost {
  return sum(of(book.totals, origin, campaign).map((total) => exact(total.cost)));
}

function of<T extends Whose>(costs: readonly T[], origin?: string, campaign?: string): T[] {
  return costs.filter((one) => {
    if (origin === undefined) return true;
    if (campaign === undefined) return hostOf(one.origin) === hostOf(origin);
    return one.origin === origin && one.campaign === campaign;
  });
}

/** What was spent or is set aside, the larger, by campaign: in all, or on a collector. */
function committed(book: Book, origin?: string): Cost {
  const costs = of<Whose>([...book.totals, ...(book.aside ?? [])], origin);
  const all = new Map(costs.map((one) => [JSON.stringify([one.origin, one.campaign]), one]));
  return sum([...all.values()].map((one) => committedTo(book, one.origin, one.campaign)));
}

function committedTo(book: Book, origin: string, campaign: string): Cost {
  return larger(spentBy(book, origin, campaign), asideFor(book, origin, campaign));
}

function asideFor(book: Book, origin: string, campaign: string): Cost {
  return sum(of(book.aside ?? [], origin, campaign).map((one) => exact(one.cost)));
}

/** What a report has to set aside: nothing, if an earlier one has. */
function newAside(book: Book, { origin, digest, aside = 0n }: Charge): Cost {
  const known = (book.aside ?? []).some((one) => one.origin === origin && one.digest === digest);
  return known ? 0n : aside;
}

function found(book: Book, origin: string, digest: string, round: string): Entry | undefined {
  return book.entries.find(
    (entry) => entry.origin === origin && entry.digest === digest && entry.round === round,
  );
}

/** Return those of these permanent answers that were not paid for yet, each once. */
function unpaid(book: Book, memos: readonly Memo[]): Memo[] {
  const names = new Set(book.paid.map((paid) => paid.name));
  const different = new Map(memos.map((memo) => [memo.name, memo]));
  return [...different.values()].filter((memo) => !names.has(memo.name));
}

// --- what is refused ---------------------------------------------------------------------------

function requireNew(book: Book, wanted: Charge): void {
  if (book.entries.some((entry) => entry.reportId === wanted.reportId)) {
    throw new MurmurationError("ledger", "this report's id is already in use. Nothing was sent.");
  }
  const { origin, digest, rounds, campaign } = wanted;
  const made = book.entries.filter((entry) => entry.origin === origin && entry.digest === digest);
  if (made.length >= rounds) {
    throw new MurmurationError(
      "budget",
      `${campaign}: a device answers ${rounds} times at most, and has. Nothing was sent.`,
      "rounds",
    );
  }
}

/** Refuse what would go beyond one of the person's limits, or the campaign's own. */
function requireAffordable(book: Book, wanted: Charge, cost: Cost): void {
  const { origin, campaign, limit } = wanted;
  const { lifetime, collector } = limitsOf(book);
  const spent = spentBy(book, origin, campaign);
  const set = sum([asideFor(book, origin, campaign), newAside(book, wanted)]);
  const more = less(larger(sum([spent, cost]), set), committedTo(book, origin, campaign));
  const rules: [string, Cost, Cost, Cost][] = [
    ["lifetime", lifetime, committed(book), more],
    ["collector", collector, committed(book, origin), more],
    ["campaign", limit, spent, cost],
  ];
  for (const [reason, most, before, costs] of rules) {
    if (most !== Infinity && sum([before, costs]) > most) {
      const [now, gone, all] = [costs, before, most].map(approximate);
      throw new MurmurationError(
        "budget",
        `${campaign}: this report costs ${now} (with what is set aside for later reports); ${gone} ` +
          `of the ${reason} limit ${all} is spent. Nothing was sent.`,
        reason,
      );
    }
  }
}

// --- what is written ---------------------------------------------------------------------------

function entryOf(wanted: Charge): Entry {
  const { origin, campaign, digest, purpose, round, report, reportId, held } = wanted;
  const madeAt = `${new Date().toISOString().slice(0, 19)}+00:00`;
  const cost = written(wanted.cost);
  const outcome = null;
  const entry = { origin, campaign, digest, purpose, round, cost, madeAt, reportId, report, outcome };
  return held ? { ...entry, held } : entry;
}

/** Note the permanent answers that are new, what is set aside, and the campaign's total. */
function note(book: Book, wanted: Charge, memos: Memo[], cost: Cost): void {
  const { origin, campaign, digest, misfits } = wanted;
  const aside = newAside(book, wanted);
  if (aside) book.aside = [...(book.aside ?? []), { origin, campaign, digest, cost: written(aside) }];
  for (const { attribute, reason } of misfits ?? []) count(book, { origin, campaign, attribute, reason });
  const paid = memos.map((memo) => ({
    ...{ name: memo.name, origin, campaign },
    cost: written(memo.cost),
  }));
  book.paid = [...book.paid, ...paid].sort((one, other) => (one.name < other.name ? -1 : 1));
  const answers = memos.flatMap(({ name, answer }) => (answer ? [[name, answer]] : []));
  book.kept = { ...book.kept, ...(Object.fromEntries(answers) as Record<string, string>) };
  const total = written(sum([spentBy(book, origin, campaign), cost]));
  const others = book.totals.filter((t) => t.origin !== origin || t.campaign !== campaign);
  book.totals = [...others, { origin, campaign, cost: total }];
}

/** Count an answer that did not fit. */
function count(book: Book, which: Omit<Misfits, "times">): void {
  const same = (one: Misfits) =>
    one.origin === which.origin &&
    one.campaign === which.campaign &&
    one.attribute === which.attribute &&
    one.reason === which.reason;
  const before = (book.misfits ?? []).find(same);
  const others = (book.misfits ?? []).filter((one) => !same(one));
  book.misfits = [...others, { ...which, times: (before?.times ?? 0) + 1 }];
}
