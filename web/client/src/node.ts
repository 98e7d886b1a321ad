/** A person's book in a file, for node: `import { FileStore } from "murmuration-ldp/node"`.
 *
 * One process writes at a time: whoever makes the lock `PATH.write.lock` first. A change is written
 * beside the file, flushed to the disk, and put in its place: there is the old book or the new one, never
 * half of one. Only the owner may read it, as the secret is in it.
 *
 * A lock is a symbolic link to nothing; its target is a text of its own, which says whose it is: the
 * number of the process, the machine, and a random id. Link and text are made in one step, which fails
 * if the lock is there: no lock is without its text, and no two have the same one.
 *
 * A lock whose process has ended is taken away only by whoever holds a second lock, which is named
 * after the id of the first, and only if the first still has the same text. Nobody else may remove a
 * lock with that text (its own process has ended), and no lock has it again. So between the look and
 * the removal it cannot have become another's, however long that takes. A process that is killed while
 * it holds the second lock has left a lock like any other, with an id of its own.
 *
 * Whether a process has ended is known on its own machine only: a lock of another one is waited for.
 * Containers that share a book have to have names of their own (hostnames), or see each other's
 * processes.
 */

import {
  closeSync,
  fsyncSync,
  openSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeSync,
} from "node:fs";
import { hostname } from "node:os";
import { basename, dirname, join, resolve } from "node:path";

import { MurmurationError } from "./errors.js";
import { type Book, newBook, type Store } from "./store.js";
import { hex } from "./words.js";

/** How long another process may hold the lock before this one gives up, and how often it looks. */
const PATIENCE_MS = 30_000;
const PAUSE_MS = 20;
const MOST_LINKS = 40;

export class FileStore implements Store {
  readonly #turns = new Map<string, Promise<unknown>>();

  private readonly path: string;

  /** The file itself is meant, from here, by whichever link or relative path it was named: else two
   * names were two books, and what was spent in one would be unknown to the other. */
  constructor(path: string) {
    this.path = real(resolve(path));
  }

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
      if (statSync(this.path).nlink > 1) throw { code: "it has a second name (a hard link)" };
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
    await take(lock);
    try {
      return await work();
    } finally {
      rmSync(lock, { force: true });
    }
  }
}

/** Follow links, also of a file that is not there yet. */
function real(path: string, links = 0): string {
  try {
    return realpathSync(path);
  } catch (problem) {
    if ((problem as { code?: string }).code !== "ENOENT" || links > MOST_LINKS) throw unusable(problem);
  }
  const target = targetOf(path);
  if (target !== undefined) return real(resolve(dirname(path), target), links + 1);
  return join(real(dirname(path), links + 1), basename(path));
}

/** Where a link leads; undefined if there is none. */
function targetOf(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined;
  }
}

/** Make a lock; one whose process has ended is taken away first. */
async function take(lock: string): Promise<void> {
  const mine = `${process.pid} ${hostname()} ${crypto.randomUUID()}`;
  for (let waited = 0; ; waited += PAUSE_MS) {
    try {
      return symlinkSync(mine, lock);
    } catch (problem) {
      if ((problem as { code?: string }).code !== "EEXIST") throw unusable(problem);
    }
    const owner = ownerOf(lock);
    if (owner !== undefined && hasEnded(owner)) await takeAway(lock, owner);
    else if (waited < PATIENCE_MS) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    else throw held(lock, owner);
  }
}

/** Remove the lock of a process that has ended, if it is still there: see above. */
async function takeAway(lock: string, owner: string): Promise<void> {
  const second = `${lock}-${owner.split(" ")[2] ?? ""}`;
  await take(second);
  try {
    if (ownerOf(lock) === owner) rmSync(lock);
  } finally {
    rmSync(second);
  }
}

/** The text of a lock: "" if it is a file, as no process makes; undefined if there is no lock. */
function ownerOf(lock: string): string | undefined {
  try {
    return readlinkSync(lock);
  } catch (problem) {
    const { code } = problem as { code?: string };
    if (code === "ENOENT") return undefined;
    if (code === "EINVAL") return "";
    throw unusable(problem);
  }
}

/** Whether the process that made a lock is gone. */
function hasEnded(owner: string): boolean {
  const [pid, machine] = owner.split(" ");
  if (!Number(pid)) return true;
  if (machine !== hostname()) return false;
  try {
    process.kill(Number(pid), 0);
    return false;
  } catch (problem) {
    return (problem as { code?: string }).code === "ESRCH";
  }
}

function held(lock: string, owner = ""): MurmurationError {
  const [pid, machine] = owner.split(" ");
  return new MurmurationError(
    "ledger",
    `${lock} is held by process ${pid} on ${machine}. Nothing was sent. If no process there uses ` +
      "this book, delete the lock.",
  );
}

function unusable(problem: unknown): MurmurationError {
  const why = (problem as { code?: string }).code ?? "it is damaged, or of another format";
  return new MurmurationError(
    "ledger",
    `the record of what was spent cannot be used: ${why}. Nothing was sent.`,
  );
}
