// Builds the one file that collectors serve: the library and the element, minified.
// Without `sourcemap`, banners and paths the same sources give the same bytes everywhere.
import { build } from "esbuild";

await build({
  entryPoints: ["src/browser.ts"],
  outfile: process.argv[2] ?? "../../src/murmuration/server/static/murmuration-client.js",
  bundle: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  minify: true,
  legalComments: "none",
  logLevel: "warning",
});
