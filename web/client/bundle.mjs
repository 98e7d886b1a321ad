// Builds the files that collectors serve, minified: the library and the element; and, in a file of its
// own, as most pages need none of it, what takes part in trainings: it imports the library's file.
//
//     node bundle.mjs            writes them
//     node bundle.mjs --check    says whether those that are there are those that would be written
//
// Without source map, banner and paths the same sources give the same bytes on every machine.
import { readFile, writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import { build, transform } from "esbuild";
import { minify } from "terser";

import { protocol } from "./protocol.mjs";

const FOLDER = new URL("../../src/murmuration/server/static/", import.meta.url);
const FILES = { "murmuration-client.js": "src/browser.ts", "murmuration-training.js": "src/training/index.ts" };
// Bytes, gzipped: what a page pays for the client, and a page of a training for both.
const MOST = { "murmuration-client.js": 32_768, "murmuration-training.js": 8_192 };

// A style sheet in a text is left as it is, unless it is taken out of it.
const styles = {
  name: "styles",
  setup: ({ onLoad }) =>
    onLoad({ filter: /style\.ts$/ }, async ({ path }) => {
      const [before, sheet, after] = (await readFile(path, "utf8")).split(/(?<=const CSS = )`([^`]+)`/);
      const { code } = await transform(sheet, { loader: "css", minify: true });
      return { contents: before + JSON.stringify(code.trim()) + after, loader: "ts" };
    }),
};
// The file of trainings imports what it shares from the client's.
const shared = {
  name: "shared",
  setup: ({ onResolve }) =>
    onResolve({ filter: /^\.\.\/core\.js$/ }, () => ({ path: "./murmuration-client.js", external: true })),
};
const constants = new URL("src/protocol.ts", import.meta.url);
if (!process.argv.includes("--check")) await writeFile(constants, await protocol());
else if ((await readFile(constants, "utf8")) !== (await protocol())) {
  throw new Error("src/protocol.ts is not docs/vectors/protocol.json: make web");
}
// Terser finds a twentieth more than esbuild does. (No function here is called by `new`: classes are.)
const compress = { passes: 3, unsafe_arrows: true };
const options = { module: true, ecma: 2022, compress, format: { comments: false } };
for (const [name, entry] of Object.entries(FILES)) {
  const { outputFiles } = await build({
    absWorkingDir: import.meta.dirname,
    entryPoints: [entry],
    bundle: true,
    format: "esm",
    target: "es2022",
    charset: "utf8",
    minify: true,
    plugins: [styles, shared],
    legalComments: "none",
    logLevel: "warning",
    write: false,
  });
  const contents = Buffer.from(`${(await minify(outputFiles[0].text, options)).code}\n`);
  const size = gzipSync(contents, { level: 9 }).length;
  console.log(`${name}: ${contents.length} bytes, ${size} gzipped`);
  if (size > MOST[name]) throw new Error(`${name} has more than ${MOST[name]} bytes: make it smaller`);
  const file = new URL(name, FOLDER);
  if (!process.argv.includes("--check")) {
    await writeFile(file, contents);
  } else if (!(await readFile(file)).equals(contents)) {
    throw new Error(`${name}, as collectors serve it, is not built from these sources: make web`);
  }
}
