/** The participant's page of a training: a person's values go in, one noisy answer to a question about
 * them leaves, once in all rounds.
 */

import { sentences, Voice } from "murmuration-client";
import { type Receipt, type Training, TrainingClient, MurmurationError } from "murmuration-training";
import { facts, frame, make, section } from "./page.js";
import { rough, saying, whole } from "./say.js";
import { TRAINEE } from "./texts.js";
import { givenToken } from "./token.js";

const say = saying(TRAINEE);
const teller = new Voice(sentences.SENTENCES, "en");
/** The campaign's name is the last part of the address: /c/NAME. */
const NAME = location.pathname.split("/").pop()!;
const TOKEN = givenToken(NAME);
const ADDRESS = new URL(`../v1/campaigns/${NAME}`, location.href).href;

const title = make("h1", { dir: "auto" }, say("loading"));
const place = make("div", { class: "panel" }, make("p", { role: "status" }, say("checking")));
const said = make("p", { role: "status" });
const how = section(say("how"), "conclude", ...["how1", "how2", "how3"].map(line));
const rules = make("div");
const who = section(say("who"), "who", rules);
who.hidden = true;

frame(
  decodeURIComponent(NAME),
  [],
  make("div", { class: "intro" }, title, make("p", { class: "lead" }, say("lead"))),
  make("div", { class: "beside" }, place, how),
  who,
);

void start();

function line(key: string): HTMLElement {
  return make("p", {}, say(key as keyof typeof TRAINEE));
}

async function start(): Promise<void> {
  try {
    const client = await TrainingClient.open(ADDRESS, {
      allowPlainHttp: true,
      token: TOKEN,
    });
    title.textContent = client.training.purpose || client.training.name;
    rules.replaceChildren(about(client.training), make("p", {}, say("checked")));
    who.hidden = false;
    place.replaceChildren(form(client), said);
  } catch (problem) {
    place.replaceChildren(make("p", { role: "alert" }, words(problem)));
  }
}

// --- the form ------------------------------------------------------------------------------------

type Field = HTMLInputElement | HTMLSelectElement;

function form(client: TrainingClient): HTMLElement {
  const { questions, target } = client.training;
  const fields = questions.map((question) => [question.name, field(question)] as const);
  const rows = fields.map(([name, one], at) => {
    const { unit, labels, low, high } = questions[at]!;
    const text = name === target.name ? say("targetIs", { name }) : name;
    const hint = labels.length ? "" : say("range", { low: rough(low), high: rough(high), unit });
    return make("label", { dir: "auto" }, text, one, make("span", { class: "hint" }, hint));
  });
  const send = make("button", { type: "submit" }, say("send"));
  const made = make("form", { class: "answers" }, ...rows, send, make("p", { class: "hint" }, say("once")));
  made.addEventListener("submit", (event) => {
    event.preventDefault();
    const values = Object.fromEntries(fields.map(([name, one]) => [name, read(one)]));
    const { [target.name]: goal, ...features } = values;
    void answer(client, features, goal!, send);
  });
  return made;
}

function field({ labels }: Training["target"]): Field {
  if (!labels.length) return make("input", { type: "number", step: "any", required: true });
  const options = labels.map((label) => make("option", { value: label }, label));
  const first = make("option", { value: "", disabled: true, selected: true }, say("choose"));
  return make("select", { required: true }, first, ...options);
}

function read(one: Field): string | number {
  return one instanceof HTMLInputElement ? one.valueAsNumber : one.value;
}

async function answer(
  client: TrainingClient,
  features: Record<string, string | number>,
  goal: string | number,
  button: HTMLButtonElement,
): Promise<void> {
  button.disabled = true;
  said.textContent = say("sending");
  try {
    tell(await client.train(features, goal));
  } catch (problem) {
    said.textContent = words(problem);
    button.disabled = false;
  }
}

function tell({ outcome, fresh }: Receipt): void {
  const counted = outcome === "stored" || outcome === "duplicate";
  place.replaceChildren(
    make("p", { class: "strong", role: "status" }, say(counted ? "counted" : "notCounted")),
    make("p", {}, counted ? say("thanks") : say("outcome", { outcome })),
    ...(fresh ? [] : [make("p", { class: "hint" }, say("before"))]),
  );
}

/** What went wrong, in words; that no round is open is nobody's mistake. */
function words(problem: unknown): string {
  if (problem instanceof MurmurationError && problem.reason === "no-round") return say("noRound");
  return (problem as Error).message;
}

// --- the rules -----------------------------------------------------------------------------------

function about({ epsilon, loss, digest, cohort, people, closes }: Training): HTMLElement {
  const rows: [string, Node | string][] = [
    [say("host"), new URL(ADDRESS).host],
    [say("loss"), sentences.reveals(teller, loss.epsilon, epsilon)],
    [say("conclude"), sentences.odds(teller, loss.epsilon)],
    [say("digest"), make("code", {}, digest)],
    [say("planned"), whole(people)],
    [say("cohort"), say("cohortValue", { cohort })],
  ];
  if (closes) rows.push([say("until"), closes.toLocaleString()]);
  return facts(rows);
}
