// Writes src/protocol.ts from docs/vectors/protocol.json, in which Python says what every language must
// agree on: limits, the keys of documents, laws, and which answers are final.
//
//     node protocol.mjs            writes it
//     node protocol.mjs --check    says whether it is the current one
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

const SOURCE = new URL("../../docs/vectors/protocol.json", import.meta.url);
const TARGET = new URL("src/protocol.ts", import.meta.url);
const VECTORS = "privunit"; // a law of trainings alone

/** Keys in one text, in order; `key=default` is left out at its default. */
function listed(keys) {
  return keys.map(([key, ...usual]) => (usual.length ? `${key}=${JSON.stringify(usual[0])}` : key)).join(" ");
}

function law({ parameters, law: keys }) {
  return [Object.keys(parameters).join(" "), listed(keys)];
}

function limit(name) {
  const upper = name.toUpperCase();
  return upper.startsWith("LEAST_") ? upper : `MOST_${upper}`;
}

function constants({ wire, format, limits, keys, floats, laws, roles, periods, uploads, final, busy }) {
  const { [VECTORS]: privunit, ...campaigns } = laws;
  const broken = Object.entries(laws).filter(([, one]) => !one.keeps_promise);
  return [
    ["WIRE", wire],
    ["FORMAT", format],
    ...Object.entries(limits).map(([name, value]) => [limit(name), value]),
    ...Object.entries(keys).map(([name, of]) => [`${name.toUpperCase()}_KEYS`, listed(of)]),
    ["FLOATS", floats.join(" ")],
    ["LAWS", Object.fromEntries(Object.entries(campaigns).map(([name, one]) => [name, law(one)]))],
    ["PRIVUNIT", law(privunit)],
    ["BROKEN", broken.map(([name]) => name)],
    ["ROLE_MODELS", Object.fromEntries(Object.entries(roles).map(([ask, [at]]) => [ask, at.join(" ")]))],
    ["ROLE_NUMBERS", Object.fromEntries(Object.entries(roles).map(([ask, [, own]]) => [ask, own.join(" ")]))],
    ["PERIODS", periods],
    ["UPLOADS", uploads],
    ["FINAL", final],
    ["BUSY", busy],
  ];
}

/** Return the file. */
export async function protocol() {
  const found = constants(JSON.parse(await readFile(SOURCE, "utf8")));
  const lines = found.map(([name, value]) => `export const ${name} = ${JSON.stringify(value)}${typeof value === "object" ? " as const" : ""};`);
  const head = "/** Written by protocol.mjs from docs/vectors/protocol.json: change it there. */\n\n";
  return `${head}${lines.join("\n")}\n`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const text = await protocol();
  if (!process.argv.includes("--check")) await writeFile(TARGET, text);
  else if ((await readFile(TARGET, "utf8")) !== text) throw new Error("src/protocol.ts is not current: make web");
}
