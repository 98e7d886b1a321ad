/** What this browser has spent on whom: a table, a file of it, and a way to erase what may be erased.
 *
 * The key behind the noise is in no file and on no page. Charges and key cannot be erased here: limits
 * would mean nothing, and the same answer could be asked for again under new noise.
 */

import { approximate, type Client, type Entry, sentences, Voice } from "murmuration-client";
import { make, save } from "./page.js";
import { rough, saying } from "./say.js";
import { PARTICIPANT } from "./texts.js";

const say = saying(PARTICIPANT);
const teller = new Voice(sentences.SENTENCES, "en");

/** What was done last: it outlives what is filled in anew. */
const done = make("p", { role: "status" });

/** Fill in a place on the page; `forget` is what else an erasure clears. */
export async function showSpent(
  place: HTMLElement,
  client: Client,
  forget: () => void,
): Promise<void> {
  const { totals, all, limits } = await client.spending();
  const sent = make("button", { type: "button", class: "plain" }, say("exportFile"));
  sent.addEventListener(
    "click",
    () => void exported(client).then((file) => save("murmuration-spent.json", file)),
  );
  const erase = make("button", { type: "button", class: "plain" }, say("erase"));
  erase.addEventListener("click", async () => {
    await client.ledger.forgetSent();
    forget();
    done.textContent = say("erased");
  });
  place.replaceChildren(
    totals.length ? table(totals, all) : make("p", {}, say("spentNone")),
    make("p", { class: "hint" }, sentences.limits(teller, limits)),
    make("div", { class: "action" }, sent, make("p", { class: "hint" }, say("exportWhy"))),
    make("div", { class: "action" }, erase, make("p", { class: "hint" }, say("eraseWhy"))),
    done,
  );
}

type Totals = Awaited<ReturnType<Client["spending"]>>["totals"];

function table(totals: Totals, all: number): HTMLElement {
  const cell = (text: string) => make("td", { dir: "auto" }, text);
  const head = [say("spentWhom"), say("spentAt"), say("spentCost")].map((text) =>
    make("th", { scope: "col" }, text),
  );
  const rows = totals.map((one) =>
    make("tr", {}, cell(one.campaign), cell(new URL(one.origin).host), cell(rough(one.epsilon))),
  );
  const sum = make(
    "tr",
    {},
    make("th", { scope: "row", colspan: "2" }, say("spentAll")),
    cell(rough(all)),
  );
  return make(
    "table",
    {},
    make("thead", {}, make("tr", {}, ...head)),
    make("tbody", {}, ...rows),
    make("tfoot", {}, sum),
  );
}

/** All but the key and the names of permanent answers; a report's bytes only once it has arrived:
 * who sees them before could choose their noise. */
async function exported({ ledger }: Client): Promise<Blob> {
  const [entries, totals, limits] = [
    await ledger.entries(),
    await ledger.totals(),
    await ledger.limits(),
  ];
  const own = (entry: Entry) => ({
    ...entry,
    report: entry.outcome === null ? null : entry.report,
  });
  const found = {
    ...{ site: location.origin, exported: new Date().toISOString() },
    limits: Object.fromEntries(
      Object.entries(limits).map(([name, most]) => [name, String(approximate(most))]),
    ),
    totals: totals.map((one) => ({ ...one, cost: String(approximate(one.cost)) })),
    reports: entries.map(own),
  };
  return new Blob([`${JSON.stringify(found, null, 2)}\n`], { type: "application/json" });
}
