/** Where a person's book is kept: in the browser's own storage, or, if an app says so, in memory.
 *
 * A store has one writer at a time, over all tabs and workers (Web Locks), and a change is on the
 * disk before its promise is kept. Browsers keep storage for each site apart: the same person has
 * another book, another secret and new limits on every site that embeds a campaign.
 */

import { MurmurationError } from "./errors.js";

/** The person's limits on one report, on one collector and on everything; "inf" is none. */
export interface Limits<T> {
  report: T;
  collector: T;
  lifetime: T;
}

/** One report: what it cost, the bytes that are sent, and what came of it. */
export interface Entry {
  readonly origin: string;
  readonly campaign: string;
  readonly digest: string;
  readonly purpose: string;
  readonly round: string;
  /** An exact decimal, or "inf"; without permanent answers. */
  readonly cost: string;
  /** UTC, in ISO 8601. */
  readonly madeAt: string;
  readonly reportId: string;
  /** The exact bytes, as text; null once they were acknowledged and forgotten. */
  readonly report: string | null;
  /** "stored", "duplicate" or "refused:<reason>"; null until the collector has answered. */
  readonly outcome: string | null;
  /** It was charged, and its bytes have never been let go: it may be taken back. */
  readonly held?: true;
}

/** What was paid to whom; `name` is that of a permanent answer. */
export interface Paid {
  readonly name: string;
  readonly origin: string;
  readonly campaign: string;
  readonly cost: string;
}

/** What all reports of a question may cost. */
export interface Aside extends Omit<Paid, "name"> {
  readonly digest: string;
}

/** How many answers to an attribute did not fit, and why; no answer is here. */
export interface Misfits {
  readonly origin: string;
  readonly campaign: string;
  readonly attribute: string;
  readonly reason: string;
  readonly times: number;
}

/** All that a device keeps. Nothing in it is an answer, but secret and report reveal one. */
export interface Book {
  readonly format: 1;
  /** 32 bytes from the system's generator, made once. */
  secret: Uint8Array<ArrayBuffer>;
  limits: Limits<string>;
  entries: Entry[];
  /** Permanent answers, in the order of names: in none of time. */
  paid: Paid[];
  /** What each campaign has ever cost. */
  totals: Omit<Paid, "name">[];
  /** What is set aside at first contact for all reports of a question that comes back. */
  aside?: Aside[];
  /** The permanent answers of spells, hidden, by the names that they were paid under. */
  kept?: Record<string, string>;
  /** Digests of the rounds of trainings that this device was shown, by origin and campaign. */
  rounds?: Record<string, Record<number, string>>;
  /** Answers that did not fit, counted. */
  misfits?: Misfits[];
}

/** One person's book. `work` is done at once, without waiting, on a book of its own. */
export interface Store {
  read<T>(work: (book: Book) => T): Promise<T>;
  /** Keep what `work` has changed, durably; nothing of it, if it throws. */
  change<T>(work: (book: Book) => T): Promise<T>;
  /** Do something that nobody else does at the same time under that name. */
  alone<T>(name: string, work: () => Promise<T>): Promise<T>;
}

/** The limits of a new ledger. */
export const USUAL: Readonly<Limits<string>> = { report: "4", collector: "8", lifetime: "16" };

export function newBook(): Book {
  const secret = crypto.getRandomValues(new Uint8Array(32));
  return { format: 1, secret, limits: { ...USUAL }, entries: [], paid: [], totals: [] };
}

/** A book that is gone when the program ends, with what it knows of spending: only for a device
 * that makes a new start on purpose, such as a test or a simulation. */
export class MemoryStore implements Store {
  #book = newBook();
  readonly #turns = new Map<string, Promise<unknown>>();

  async read<T>(work: (book: Book) => T): Promise<T> {
    return work(structuredClone(this.#book));
  }

  async change<T>(work: (book: Book) => T): Promise<T> {
    const book = structuredClone(this.#book);
    const result = work(book);
    this.#book = structuredClone(book);
    return result;
  }

  alone<T>(name: string, work: () => Promise<T>): Promise<T> {
    const turn = (this.#turns.get(name) ?? Promise.resolve()).then(work, work);
    this.#turns.set(name, turn);
    return turn;
  }
}

const NAME = "murmuration";
const BOOK = "book";

/** A book in IndexedDB: all tabs and workers of one site share it. */
export class BrowserStore implements Store {
  constructor() {
    if (!globalThis.indexedDB || !globalThis.navigator?.locks) {
      throw new MurmurationError(
        "ledger",
        "there is no storage here (IndexedDB and Web Locks): name a store. In node FileStore keeps it (murmuration-ldp/node); MemoryStore forgets. Nothing was sent.",
      );
    }
  }

  read<T>(work: (book: Book) => T): Promise<T> {
    return this.#transact("readonly", work);
  }

  change<T>(work: (book: Book) => T): Promise<T> {
    return this.alone("write", () => this.#transact("readwrite", work));
  }

  alone<T>(name: string, work: () => Promise<T>): Promise<T> {
    return navigator.locks.request(`${NAME} ${name}`, work) as Promise<T>;
  }

  async #transact<T>(mode: IDBTransactionMode, work: (book: Book) => T): Promise<T> {
    const database = await opened();
    try {
      return await transacted(database, mode, work);
    } finally {
      database.close();
    }
  }
}

function opened(): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const asked = indexedDB.open(NAME, 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore(BOOK);
    asked.onsuccess = () => resolve(asked.result);
    asked.onerror = () => reject(unusable(asked.error));
  });
}

/** Work on the book in one transaction; what it threw, if it did. */
function transacted<T>(
  database: IDBDatabase,
  mode: IDBTransactionMode,
  work: (book: Book) => T,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const transaction = database.transaction(BOOK, mode, { durability: "strict" });
    const books = transaction.objectStore(BOOK);
    const asked = books.get(BOOK) as IDBRequest<Book | undefined>;
    let result: T, failure: unknown;
    asked.onsuccess = () => {
      try {
        const book = ours(asked.result ?? newBook());
        result = work(book);
        if (mode === "readwrite") books.put(book, BOOK);
      } catch (problem) {
        failure = problem;
        transaction.abort();
      }
    };
    transaction.oncomplete = () => resolve(result);
    transaction.onabort = () => reject(failure ?? unusable(transaction.error));
  });
}

function ours(book: Book): Book {
  if (book.format !== 1) throw unusable(null);
  return book;
}

function unusable(problem: DOMException | null): MurmurationError {
  const why = problem?.name ?? "it was made by a newer release";
  return new MurmurationError(
    "ledger",
    `the record of what was spent cannot be used: ${why}. Nothing was sent.`,
  );
}
