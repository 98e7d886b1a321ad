/** What all pages share: where they are, their frame, and what they ask the collector for. */

import { make } from "../../client/src/dom.js";
import { FRAME } from "./texts.js";
import { saying } from "./say.js";

export { folded, make } from "../../client/src/dom.js";

export type Content = Node | string;

const say = saying(FRAME);

/** Put up the frame: a way past the header, the header, the page itself. */
export function frame(title: string, links: readonly Content[], ...parts: Content[]): HTMLElement {
  document.title = `${title} · ${say("brand")}`;
  const skip = make("a", { class: "skip", href: "#main" }, say("skip"));
  const brand = make("span", { class: "brand" }, mark(), say("brand"));
  const header = make(
    "header",
    { class: "top" },
    brand,
    make("nav", { "aria-label": say("nav") }, ...links),
  );
  if (!links.length) header.lastElementChild!.remove();
  const main = make("main", { id: "main", tabindex: "-1" }, ...parts);
  document.body.replaceChildren(skip, header, main);
  return main;
}

/** A flock of five: the mark of all pages. */
function mark(): SVGElement {
  const places = [
    [3, 12],
    [8, 7],
    [13, 11],
    [17, 4],
    [20, 15],
  ] as const;
  const dots = places.map(([cx, cy]) => draw("circle", { cx, cy, r: 2 }));
  return draw("svg", { viewBox: "0 0 24 20", class: "mark", "aria-hidden": "true" }, ...dots);
}

type Drawn = Readonly<Record<string, string | number | undefined>>;

/** Make an element of a picture. */
export function draw(tag: string, attributes: Drawn = {}, ...children: Content[]): SVGElement {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined) made.setAttribute(name, String(value));
  }
  made.append(...children);
  return made;
}

/** A section with its heading. */
export function section(title: string, name: string, ...parts: Content[]): HTMLElement {
  const heading = make("h2", { id: `${name}-title` }, title);
  return make(
    "section",
    { class: `panel ${name}`, "aria-labelledby": heading.id },
    heading,
    ...parts,
  );
}

/** Names and what they are, side by side. */
export function facts(rows: readonly (readonly [string, Content])[]): HTMLElement {
  const parts = rows.flatMap(([name, value]) => [
    make("dt", {}, name),
    make("dd", { dir: "auto" }, value),
  ]);
  return make("dl", { class: "facts" }, ...parts);
}

/** Hand a file to the person. */
export function save(name: string, contents: Blob): void {
  const address = URL.createObjectURL(contents);
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** What went wrong, in the collector's own words where it has some. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** Ask the collector for JSON; `Refusal` says why there is none (status 0: it cannot be reached). */
export async function ask<T>(path: string, init: RequestInit = {}): Promise<T> {
  const answer = await fetch(path, { cache: "no-store", ...init }).catch(() => {
    throw new Refusal(0, say("unreachable"));
  });
  const found: unknown = await answer.json().catch(() => ({}));
  if (answer.ok) return found as T;
  const { detail, title } = found as { detail?: string; title?: string };
  throw new Refusal(answer.status, detail || title || say("status", { status: answer.status }));
}
