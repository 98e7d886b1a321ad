// Builds the collector's pages: a shell, a module and a share of one style sheet each.
//
//     node bundle.mjs            writes them
//     node bundle.mjs --check    says whether those that are there are those that would be written
//
// Without source map, banner and paths the same sources give the same bytes on every machine.
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { minify } from "terser";

const HERE = import.meta.dirname;
const FOLDER = new URL("../../src/murmuration/server/static/pages/", import.meta.url);
const CLIENT = "murmuration-client.js";
const TRAINING = "murmuration-training.js"; // which imports the client's
const PAGES = ["participant", "trainee", "proof", "dashboard", "plan", "sign-in"];
// Bytes, gzipped: what a person pays for a page, the campaign's document left out.
const MOST = {
  participant: 60_000,
  trainee: 60_000,
  proof: 60_000,
  dashboard: 60_000,
  plan: 60_000,
  "sign-in": 60_000,
};

/** The clients are files of their own, which a participant's browser has once. */
const client = {
  name: "client",
  setup: ({ onResolve }) =>
    onResolve({ filter: /^murmuration-(client|training)$/ }, ({ path }) => ({
      path: `../client/${path}.js`,
      external: true,
    })),
};

const packages = new Set();

async function script(page) {
  const { outputFiles, metafile } = await build({
    absWorkingDir: HERE,
    entryPoints: [`src/${page}.ts`],
    bundle: true,
    format: "esm",
    target: "es2022",
    charset: "utf8",
    minify: true,
    legalComments: "none", // licences.txt has them
    logLevel: "warning",
    metafile: true,
    plugins: [client],
    write: false,
  });
  for (const path of Object.keys(metafile.inputs)) {
    const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path);
    if (found) packages.add(found[1]);
  }
  const options = {
    module: true,
    ecma: 2022,
    compress: { passes: 3 },
    format: { comments: false },
  };
  return `${(await minify(outputFiles[0].text, options)).code}\n`;
}

async function style() {
  const css = await readFile(`${HERE}/src/pages.css`, "utf8");
  const { outputFiles } = await build({
    stdin: { contents: css, loader: "css" },
    minify: true,
    target: "es2022",
    charset: "utf8",
    write: false,
    supported: { nesting: true },
  });
  return outputFiles[0].text;
}

/** What must travel with code of others. */
async function licences() {
  const parts = [...packages].sort().map(async (name) => {
    const text = await readFile(`${HERE}/node_modules/${name}/LICENSE`, "utf8");
    return `${name}\n\n${text.trim()}\n`;
  });
  return `Parts of dashboard.js and plan.js are from these packages.\n\n${(await Promise.all(parts)).join("\n\n")}`;
}

const files = new Map();
files.set("pages.css", await style());
for (const page of PAGES) {
  files.set(`${page}.html`, await readFile(`${HERE}/src/${page}.html`, "utf8"));
  files.set(`${page}.js`, await script(page));
}
files.set("licences.txt", await licences());

const gzipped = (contents) => gzipSync(contents, { level: 9 }).length;
const shared = gzipped(files.get("pages.css"));
for (const page of PAGES) {
  const own = gzipped(files.get(`${page}.html`)) + gzipped(files.get(`${page}.js`));
  const text = files.get(`${page}.js`);
  const named = text.includes(TRAINING) ? [CLIENT, TRAINING] : text.includes(CLIENT) ? [CLIENT] : [];
  const read = await Promise.all(named.map((name) => readFile(new URL(`../${name}`, FOLDER))));
  const library = read.reduce((sum, contents) => sum + gzipped(contents), 0);
  const size = own + shared + library;
  console.log(`${page}: ${size} bytes gzipped in all, ${own} of its own`);
  if (size > MOST[page]) throw new Error(`it has more than ${MOST[page]} bytes: make it smaller`);
}

if (!process.argv.includes("--check")) {
  await rm(FOLDER, { recursive: true, force: true });
  await mkdir(FOLDER, { recursive: true });
  for (const [name, contents] of files) await writeFile(new URL(name, FOLDER), contents);
} else {
  const there = new Set(await readdir(FOLDER));
  for (const [name, contents] of files) {
    const same = there.delete(name) && (await readFile(new URL(name, FOLDER), "utf8")) === contents;
    if (!same) throw new Error(`${name} is not built from these sources: make web`);
  }
  if (there.size) throw new Error(`nothing here makes ${[...there].join(", ")}: make web`);
}
