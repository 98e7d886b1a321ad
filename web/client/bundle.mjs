// Builds the one file that collectors serve: the library and the element, minified.
//
//     node bundle.mjs            writes it
//     node bundle.mjs --check    says whether the one that is there is the one that would be written
//
// Without source map, banner and paths the same sources give the same bytes on every machine.
import { readFile, writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import { build, transform } from "esbuild";
import { minify } from "terser";

const FILE = new URL("../../src/murmuration/server/static/murmuration-client.js", import.meta.url);
const MOST = 27_648; // bytes, gzipped: what a page pays for it

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
const { outputFiles } = await build({
  absWorkingDir: import.meta.dirname,
  entryPoints: ["src/browser.ts"],
  bundle: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  minify: true,
  plugins: [styles],
  legalComments: "none",
  logLevel: "warning",
  write: false,
});
// Terser finds a twentieth more than esbuild does. (No function here is called by `new`: classes are.)
const compress = { passes: 3, unsafe_arrows: true };
const options = { module: true, ecma: 2022, compress, format: { comments: false } };
const contents = Buffer.from(`${(await minify(outputFiles[0].text, options)).code}\n`);
const size = gzipSync(contents, { level: 9 }).length;
console.log(`murmuration-client.js: ${contents.length} bytes, ${size} gzipped`);
if (size > MOST) throw new Error(`it has more than ${MOST} bytes: make it smaller`);
if (!process.argv.includes("--check")) {
  await writeFile(FILE, contents);
} else if (!(await readFile(FILE)).equals(contents)) {
  throw new Error("the file that collectors serve is not built from these sources: make web");
}
