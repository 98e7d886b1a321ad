/** A book in a file: one writer over all processes, also after some of them were killed. */

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { linkSync, mkdirSync, mkdtempSync, readdirSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { Ledger } from "../src/ledger.js";
import { FileStore } from "../src/node.js";
import type { Store } from "../src/store.js";

const MODULE = new URL("../src/node.js", import.meta.url).href;
const BOOKS = 30;

/** A process that adds one to a number in each of many books, all at the same times as others do. It is
 * slow to take a lock away: another has all the time to do so first, and to make one of its own. */
const ADDER = `
  import fs from "node:fs";
  import { syncBuiltinESMExports } from "node:module";
  const [folder, start, pause] = process.argv.slice(1);
  const until = (time) => { while (Date.now() < time); };
  const remove = fs.rmSync;
  fs.rmSync = (path, options) => {
    if (path.endsWith(".write.lock")) until(Date.now() + Number(pause));
    remove(path, options);
  };
  syncBuiltinESMExports();
  const { FileStore } = await import("${MODULE}");
  for (let book = 0; book < ${BOOKS}; book++) {
    until(Number(start) + 60 * book);
    await new FileStore(folder + "/" + book).change(({ limits }) => {
      limits.lifetime = String(Number(limits.lifetime) + 1);
    });
  }
`;

function folder(): string {
  return mkdtempSync(join(tmpdir(), "murmuration-"));
}

/** The text of a lock whose process has ended. */
function killed(id: string): string {
  return `${spawnSync(process.execPath, ["-e", ""]).pid} ${hostname()} ${id}`;
}

function lifetime(path: string): Promise<string> {
  return new FileStore(path).read((book) => book.limits.lifetime);
}

test("a book in a file outlives the program, is the owner's alone, and has one writer", async () => {
  const path = join(mkdtempSync(join(tmpdir(), "murmuration-")), "book.json");
  const stores: Store[] = [new FileStore(path), new FileStore(path)];
  const count = (store: Store) =>
    store.change((book) => {
      book.limits.lifetime = String(Number(book.limits.lifetime) + 1);
    });
  const secret = await new Ledger(stores[0]!).secret();
  await Promise.all(Array.from({ length: 20 }, (_, turn) => count(stores[turn % 2]!)));
  assert.equal(await stores[1]!.read((book) => book.limits.lifetime), "36");
  assert.deepEqual(await new Ledger(new FileStore(path)).secret(), secret);
  assert.equal(statSync(path).mode & 0o777, 0o600);
  const failed = stores[0]!.change(() => {
    throw new Error("no");
  });
  await assert.rejects(failed);
  assert.equal(await stores[0]!.read((book) => book.limits.lifetime), "36");
});

test("several that find the lock of a killed process write one after the other", async () => {
  const books = folder();
  for (let book = 0; book < BOOKS; book++) {
    await new FileStore(join(books, `${book}`)).change(() => 0);
    symlinkSync(killed(`id-${book}`), join(books, `${book}.write.lock`));
  }
  const start = Date.now() + 1500;
  const ended = [0, 2, 5].map(
    (pause) =>
      new Promise((resolve) => {
        const given = [books, `${start}`, `${pause}`];
        const child = spawn(process.execPath, ["--input-type=module", "-e", ADDER, ...given]);
        child.on("exit", resolve);
      }),
  );
  assert.deepEqual(await Promise.all(ended), [0, 0, 0]);
  const found = Array.from({ length: BOOKS }, (_, book) => lifetime(join(books, `${book}`)));
  assert.deepEqual(await Promise.all(found), Array<string>(BOOKS).fill("19"));
  assert.equal(readdirSync(books).length, BOOKS); // no lock is left
});

test("a lock ends with its process, also one that was held to take another away", async () => {
  const path = join(folder(), "book.json");
  symlinkSync(killed("first"), `${path}.write.lock`);
  symlinkSync(killed("second"), `${path}.write.lock-first`);
  symlinkSync(killed("third"), `${path}.write.lock-first-second`);
  await new FileStore(path).change((book) => (book.limits.lifetime = "17"));
  assert.equal(await lifetime(path), "17");
  writeFileSync(`${path}.write.lock`, ""); // no process made it: a lock has its text from the start
  await new FileStore(path).change((book) => (book.limits.lifetime = "18"));
  assert.deepEqual([await lifetime(path), readdirSync(join(path, "..")).length], ["18", 1]);
});

test("the lock of another machine is waited for: whether its process has ended is not known here", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const path = join(folder(), "book.json");
  symlinkSync(killed("id").replace(hostname(), "elsewhere"), `${path}.write.lock`);
  const refused = assert.rejects(
    new FileStore(path).change(() => 0),
    /is held by process \d+ on elsewhere\. Nothing was sent\. If no process there/,
  );
  for (let turn = 0; turn < 1502; turn++) {
    await Promise.resolve().then(() => t.mock.timers.tick(20));
    await new Promise((resolve) => setImmediate(resolve));
  }
  await refused;
});

test("one file is one book, by whichever name it is called", async () => {
  const at = folder();
  mkdirSync(join(at, "real"));
  symlinkSync(join(at, "real"), join(at, "folder"));
  symlinkSync("real/book", join(at, "link")); // there is nothing yet
  const names = ["link", "real/book", "folder/book", "real/../link"];
  const here = process.cwd();
  process.chdir(at);
  const stores = [...names.map((name) => new FileStore(name)), new FileStore(join(at, "link"))];
  process.chdir(here);
  for (const [place, store] of stores.entries()) {
    await new Ledger(store).lower({ lifetime: 10 - place });
  }
  for (const store of stores) {
    assert.equal(await store.read((book) => book.limits.lifetime), "6");
  }
  linkSync(join(at, "real/book"), join(at, "second"));
  for (const name of ["second", "link"]) {
    const ledger = new Ledger(new FileStore(join(at, name)));
    await assert.rejects(ledger.lower({ lifetime: 1 }), { kind: "ledger", message: /hard link/ });
  }
});
