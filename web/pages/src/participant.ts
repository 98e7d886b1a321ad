/** The participant's page: the questions, what noise does to the answers, who asks, what was spent. */

import {
  type Campaign,
  type Client,
  type MurmurCampaign,
  type Receipt,
  type Said,
  boundOf,
  sentences,
  Voice,
} from "murmuration-client";
import { ask, facts, frame, make, section } from "./page.js";
import { said as says, tell, type Told } from "./picture.js";
import { saying } from "./say.js";
import { showSpent } from "./spent.js";
import { PARTICIPANT } from "./texts.js";
import { givenToken } from "./token.js";

const say = saying(PARTICIPANT);
const teller = new Voice(sentences.SENTENCES, "en");
/** The campaign's name is the last part of the address: /c/NAME. */
const NAME = location.pathname.split("/").pop()!;

const title = make("h1", { dir: "auto" }, say("loading"));
const element = make("murmur-campaign" as "div", {
  src: `../v1/campaigns/${NAME}`,
}) as unknown as MurmurCampaign;
element.options = { token: givenToken(NAME) };
const picture = make("div", { "aria-live": "polite" }, make("p", {}, say("pictureFirst")));
const conclude = make("div");
const rules = make("div");
const spent = make("div");

const parts = [
  section(say("picture"), "picture", picture),
  section(say("conclude"), "conclude", conclude),
  section(say("who"), "who", rules),
  section(say("spent"), "spent", spent),
] as const;
for (const part of parts) part.hidden = true; // until the campaign is there, and can be trusted

frame(
  decodeURIComponent(NAME),
  [],
  make("div", { class: "intro" }, title, make("p", { class: "lead" }, say("lead"))),
  make("div", { class: "beside" }, element, make("div", { class: "column" }, parts[0], parts[1])),
  parts[2],
  parts[3],
);

// --- the element ---------------------------------------------------------------------------------

let last = ""; // the question that was touched last

element.addEventListener("murmur-ready", () => void ready(element.client!));
element.addEventListener(
  "murmur-sent",
  (event) => void sent(element.client!, (event as CustomEvent<Receipt>).detail),
);
element.addEventListener(
  "murmur-error",
  () => void (element.client ? spending(element.client) : missing()),
);
element.addEventListener("input", () => element.client && show(element.client.campaign));

async function ready(client: Client): Promise<void> {
  const { campaign } = client;
  title.textContent = campaign.purpose || campaign.name;
  conclude.replaceChildren(...conclusions(campaign));
  rules.replaceChildren(...about(campaign, client));
  sentParts = says(campaign, (await client.made())?.report ?? null);
  for (const part of parts) part.hidden = false;
  show(campaign);
  await spending(client);
}

async function sent(client: Client, { report }: Receipt): Promise<void> {
  sentParts = says(client.campaign, report);
  show(client.campaign);
  await spending(client);
}

/** Say that there is no such campaign, if there is none, and which there are. */
async function missing(): Promise<void> {
  const found = await ask<{ campaigns: { campaign: string }[] }>("../v1/campaigns").catch(
    () => null,
  );
  const names = found?.campaigns.map((one) => one.campaign) ?? [NAME];
  if (names.includes(NAME)) return;
  const links = names.map((name) => make("li", {}, make("a", { href: name }, name)));
  title.textContent = say("gone", { name: decodeURIComponent(NAME) });
  title.nextElementSibling!.textContent = links.length ? say("others") : "";
  element.replaceWith(make("ul", {}, ...links.slice(0, 50)));
}

function spending(client: Client): Promise<void> {
  return showSpent(spent, client, () => {
    element.texts = {}; // begins anew: an empty form, or the thanks without the report
  });
}

// --- the picture ---------------------------------------------------------------------------------

let before: Said["answers"] = {};
let sentParts: HTMLElement[] = []; // what the report says, once it is sent

/** Show the question that was touched last, or the one that is chosen. */
function show(campaign: Campaign): void {
  const said = element.said?.();
  if (!said) return picture.replaceChildren(...sentParts, make("p", {}, say("pictureDone")));
  const changed = campaign.questions.find(({ name }) => said.answers[name] !== before[name]);
  if (changed && said.answers[changed.name] !== undefined) last = changed.name;
  before = said.answers;
  const levelled = campaign.levels.length && said.level === undefined;
  const found = levelled ? [] : told(campaign, said);
  const first = say(levelled ? "pictureLevel" : "pictureFirst");
  picture.replaceChildren(...(found.length ? chosen(found) : [make("p", {}, first)]));
}

/** What can be told of the answers as they stand: nothing, where the campaign would refuse one. */
function told(campaign: Campaign, said: Said): Told[] {
  try {
    return tell(campaign, said);
  } catch {
    return [];
  }
}

/** One question's picture; where several are answered, the person may look at another one. */
function chosen(found: readonly Told[]): (Node | string)[] {
  const place = Math.max(
    0,
    found.findIndex((one) => one.name === last),
  );
  const shown = make("div", {}, ...found[place]!.parts);
  if (found.length === 1) return [make("h3", { dir: "auto" }, found[0]!.name), shown];
  const options = found.map(({ name }, at) =>
    make("option", { value: String(at), selected: at === place }, name),
  );
  const select = make("select", {}, ...options);
  select.addEventListener("change", () => {
    last = found[Number(select.value)]!.name;
    shown.replaceChildren(...found[Number(select.value)]!.parts);
  });
  return [make("label", { class: "which" }, say("pictureWhich"), " ", select), shown];
}

// --- what is true of every answer ----------------------------------------------------------------

function conclusions(campaign: Campaign): HTMLElement[] {
  const { epsilon } = campaign.loss;
  const bound = boundOf(campaign);
  const again = bound ? [sentences.allReports(teller, bound.loss, bound.hidden)] : [];
  return [
    make("p", { class: "strong" }, sentences.odds(teller, epsilon)),
    make("p", {}, sentences.sure(teller, epsilon)),
    ...again.map((sentence) => make("p", {}, sentence)),
    make("p", { class: "hint" }, say("notHidden")),
  ];
}

function about(campaign: Campaign, { address }: Client): HTMLElement[] {
  const { loss, epsilon, digest, keepReports, cohort, closes, acceptLoss } = campaign;
  const accepted = loss.kept ? null : acceptLoss;
  const rows: [string, Node | string][] = [
    [say("host"), new URL(address.url).host],
    [say("loss"), sentences.reveals(teller, loss.epsilon, epsilon, accepted)],
    [say("digest"), make("code", {}, digest)],
    [say("keeps"), say(keepReports ? "keepsYes" : "keepsNo")],
    [say("cohort"), say("cohortValue", { cohort })],
  ];
  if (closes) rows.push([say("until"), closes.toLocaleString()]);
  const link = make("a", { href: `${NAME}/proof` }, say("proof"));
  return [
    facts(rows),
    make("p", {}, say("digestWhy")),
    make("p", {}, link, `: ${say("proofWhy")}.`),
  ];
}
