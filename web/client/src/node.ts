/** A person's book in a file, for node: `import { FileStore } from "murmuration-ldp/node"`.
 *
 * One process writes at a time: whoever makes the file `PATH.lock` first. A change is written beside
 * the file, flushed to the disk, and put in its place: there is the old book or the new one, never half
 * of one. Only the owner may read it, as the secret is in it.
 */

import { closeSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, writeSync } from "node:fs";
import { dirname } from "node:path";

import { MurmurationError } from "./errors.js";
import { type Book, newBook, type Store } from "./store.js";
import { hex } from "./words.js";

/** How long another process may hold the lock before this one gives up, and how often it looks. */
const PATIENCE_MS = 30_000;
const PAUSE_MS = 20;

export class FileStore implements Store {
  readonly #turns = new Map<string, Promise<unknown>>();

  constructor(private readonly path: string) {}

  async read<T>(work: (book: Book) => T): Promise<T> {
    return work(this.#book());
  }

  /** Keep what `work` has changed, on the disk; nothing of it, if it throws. */
  change<T>(work: (book: Book) => T): Promise<T> {
    return this.#inTurn("write", () =>
      this.#locked("write", async () => {
        const book = this.#book();
        const result = work(book);
        this.#write(book);
        return result;
      }),
    );
  }

  /** Do something that no other caller, here or in another process, does at the same time. */
  alone<T>(name: string, work: () => Promise<T>): Promise<T> {
    return this.#inTurn(name, () => this.#locked(name, work));
  }

  #book(): Book {
    let text: string;
    try {
      text = readFileSync(this.path, "utf8");
    } catch (problem) {
      if ((problem as { code?: string }).code === "ENOENT") return newBook();
      throw unusable(problem);
    }
    try {
      const { secret, ...book } = JSON.parse(text) as Omit<Book, "secret"> & { secret: string };
      const octets = Uint8Array.from(secret.match(/../g) ?? [], (digits) => parseInt(digits, 16));
      if (book.format !== 1 || octets.length !== 32) throw new Error("another format");
      return { ...book, secret: octets };
    } catch (problem) {
      throw unusable(problem);
    }
  }

  #write(book: Book): void {
    const beside = `${this.path}.new`;
    try {
      rmSync(beside, { force: true });
      const file = openSync(beside, "wx", 0o600);
      writeSync(file, JSON.stringify({ ...book, secret: hex(book.secret) }));
      fsyncSync(file);
      closeSync(file);
      renameSync(beside, this.path);
      const folder = openSync(dirname(this.path), "r");
      fsyncSync(folder);
      closeSync(folder);
    } catch (problem) {
      throw unusable(problem);
    }
  }

  /** In this process: one after the other. */
  #inTurn<T>(name: string, work: () => Promise<T>): Promise<T> {
    const turn = (this.#turns.get(name) ?? Promise.resolve()).then(work, work);
    this.#turns.set(name, turn);
    return turn;
  }

  /** Over all processes: by a file that only one of them can make. */
  async #locked<T>(name: string, work: () => Promise<T>): Promise<T> {
    const lock = `${this.path}.${name.replace(/[^a-z0-9]+/gi, "-")}.lock`;
    await taken(lock);
    try {
      return await work();
    } finally {
      rmSync(lock, { force: true });
    }
  }
}

/** Make a lock; one whose process has ended is taken away first. */
async function taken(lock: string): Promise<void> {
  for (let waited = 0; ; waited += PAUSE_MS) {
    try {
      const file = openSync(lock, "wx", 0o600);
      writeSync(file, String(process.pid));
      return closeSync(file);
    } catch (problem) {
      if ((problem as { code?: string }).code !== "EEXIST") throw unusable(problem);
    }
    if (waited >= PATIENCE_MS) {
      throw new MurmurationError("ledger", `${lock} is held by another process. Nothing was sent.`);
    }
    if (ended(lock)) rmSync(lock, { force: true });
    else await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

/** Whether the process that made a lock is gone. */
function ended(lock: string): boolean {
  try {
    const owner = Number(readFileSync(lock, "utf8"));
    if (!owner) return false; // it is being made
    process.kill(owner, 0);
    return false;
  } catch (problem) {
    return (problem as { code?: string }).code === "ESRCH";
  }
}

function unusable(problem: unknown): MurmurationError {
  const why = (problem as { code?: string }).code ?? "it is damaged, or of another format";
  return new MurmurationError(
    "ledger",
    `the record of what was spent cannot be used: ${why}. Nothing was sent.`,
  );
}
