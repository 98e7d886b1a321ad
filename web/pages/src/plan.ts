/** The planner: what is asked, at which epsilon, of how many people; what to expect of it, and the file
 * that a collector is started with. The collector works it out, by the code of `murmur plan`.
 */

import { odds, SENTENCES } from "../../client/src/sentences.js";
import { Voice } from "../../client/src/voice.js";
import { links, session } from "./operator.js";
import { ask, frame, make, Refusal, save, section } from "./page.js";
import { decimals, percent, rough, saying, whole } from "./say.js";
import { PLAN } from "./texts.js";

const say = saying(PLAN);
const teller = new Voice(SENTENCES, "en");
/** So long nobody types before it is worked out. */
const PAUSE = 400;
/** Half of a 95% interval, in standard errors. */
const HALF = 1.96;

interface Row {
  readonly name: string;
  readonly mechanism: string;
  readonly reason: string;
  readonly share: number;
  readonly people_needed: number;
  readonly loss: number;
  readonly k: number | null;
  readonly unit: string;
  readonly stderr_in_units: number;
  readonly malicious_shift_in_units: number;
}

interface Planned {
  readonly advice: string;
  readonly attributes: readonly Row[];
  readonly file: string;
  readonly file_problem: string;
}

/** What is asked: a number with a range, or one of several labels. */
interface Asked {
  readonly name: string;
  readonly missing: boolean;
  readonly low?: number;
  readonly high?: number;
  readonly unit?: string;
  readonly labels?: readonly string[];
}

void start();

async function start(): Promise<void> {
  try {
    const own = await session();
    new Planner((parts) => frame(say("title"), links("planner", own), ...parts));
  } catch (problem) {
    if (problem instanceof Refusal && problem.status === 401) return location.assign("sign-in");
    frame(
      say("title"),
      [],
      make("h1", {}, say("title")),
      make("p", { role: "alert" }, (problem as Error).message),
    );
  }
}

// --- one attribute -------------------------------------------------------------------------------

class AttributeFields {
  readonly root = make("fieldset", { class: "attribute" });
  readonly #legend = make("legend");
  readonly #remove = make("button", { type: "button", class: "plain" }, say("remove"));
  readonly #name: HTMLInputElement;
  readonly #kind = make(
    "select",
    {},
    make("option", { value: "number" }, say("number")),
    make("option", { value: "category" }, say("category")),
  );
  readonly #low = make("input", { type: "number", step: "any" });
  readonly #high = make("input", { type: "number", step: "any" });
  readonly #unit = make("input", {});
  readonly #labels = make("textarea", { rows: "4" });
  readonly #missing = make("input", { type: "checkbox" });

  constructor(given: Asked, removed: (fields: AttributeFields) => void) {
    this.#name = make("input", {});
    this.#fill(given);
    const numbers = [
      field(say("low"), this.#low),
      field(say("high"), this.#high),
      field(say("unit"), this.#unit),
    ];
    const labels = field(say("labels"), this.#labels);
    const choose = () => {
      for (const one of numbers) one.hidden = this.#kind.value !== "number";
      labels.hidden = this.#kind.value !== "category";
    };
    this.#kind.addEventListener("input", choose);
    choose();
    this.#remove.addEventListener("click", () => removed(this));
    const fields = make(
      "div",
      { class: "fields" },
      field(say("name"), this.#name),
      field(say("kind"), this.#kind),
      ...numbers,
      labels,
    );
    const missing = make("label", {}, this.#missing, say("missing"));
    this.root.append(this.#legend, fields, make("div", { class: "last" }, missing, this.#remove));
  }

  #fill(given: Asked): void {
    this.#name.value = given.name;
    this.#kind.value = given.labels ? "category" : "number";
    this.#labels.value = (given.labels ?? []).join("\n");
    const { low = 0, high = 100, unit = "" } = given;
    [this.#low.value, this.#high.value, this.#unit.value] = [String(low), String(high), unit];
  }

  /** Say which one it is; the last one cannot be removed. */
  number(place: number, count: number): void {
    this.#legend.textContent = say("attribute", { number: place + 1 });
    this.#remove.setAttribute("aria-label", say("removeNamed", { number: place + 1 }));
    this.#remove.hidden = count === 1;
  }

  focus(): void {
    this.#name.focus();
  }

  value(): Asked {
    const asked = { name: this.#name.value.trim(), missing: this.#missing.checked };
    if (this.#kind.value === "category") {
      const labels = this.#labels.value.split("\n").map((label) => label.trim());
      return { ...asked, labels: labels.filter(Boolean) };
    }
    const [low, high] = [this.#low.valueAsNumber, this.#high.valueAsNumber];
    return { ...asked, low, high, unit: this.#unit.value.trim() };
  }
}

/** What is still to be filled in; "" where nothing is. */
function lacking({ name, labels, low = NaN, high = NaN }: Asked, place: number): string {
  const number = place + 1;
  if (!name) return say("lacksName", { number });
  if (labels) return new Set(labels).size < 2 ? say("lacksLabels", { number }) : "";
  return low < high ? "" : say("lacksRange", { number });
}

function field(text: string, input: HTMLElement, ...hints: HTMLElement[]): HTMLElement {
  return make("div", {}, make("label", {}, text, input), ...hints);
}

// --- the page ------------------------------------------------------------------------------------

const FIRST: readonly Asked[] = [
  { name: "age", missing: false, low: 18, high: 98, unit: "years" },
  { name: "phone", missing: false, labels: ["android", "ios", "other", "none"] },
];

class Planner {
  readonly #name = make("input", { value: "commute" });
  readonly #purpose = make("input", {
    value: "How people get to work, and with which phone they read this.",
  });
  readonly #epsilon = make("input", { type: "number", step: "any", min: "0", value: "2" });
  readonly #odds = make("p", { class: "hint" });
  readonly #people = make("input", { type: "number", step: "1", min: "1", value: "200000" });
  readonly #wanted = make("input", { type: "number", step: "any", min: "0", value: "0.01" });
  readonly #attributes = make("div");
  readonly #result = make("div");
  readonly #status = make("p", { role: "status", class: "hint" });
  readonly #problem = make("p", { role: "alert" });
  #rows: AttributeFields[] = [];
  #timer = 0;
  #turn = 0;

  constructor(show: (parts: HTMLElement[]) => void) {
    const form = make("form", { novalidate: true }, this.#terms(), this.#asked());
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", () => this.#later());
    for (const one of FIRST) this.#add(one);
    const intro = make(
      "div",
      { class: "intro" },
      make("h1", {}, say("title")),
      make("p", { class: "lead" }, say("lead")),
    );
    show([
      intro,
      form,
      section(say("result"), "result", this.#status, this.#problem, this.#result),
    ]);
    void this.#work();
  }

  #terms(): HTMLElement {
    const wanted = make("p", { class: "hint" }, say("wantedHint"));
    const purpose = field(say("purpose"), this.#purpose);
    purpose.classList.add("long");
    const fields = [
      field(say("campaignName"), this.#name),
      purpose,
      field(say("epsilon"), this.#epsilon, this.#odds),
      field(say("people"), this.#people),
      field(say("wanted"), this.#wanted, wanted),
    ];
    return make("div", { class: "panel fields" }, ...fields);
  }

  #asked(): HTMLElement {
    const add = make("button", { type: "button", class: "plain" }, say("add"));
    add.addEventListener("click", () => {
      this.#add({ name: "", missing: false });
      this.#rows.at(-1)!.focus();
      this.#later();
    });
    return section(say("attributes"), "attributes", this.#attributes, make("p", {}, add));
  }

  #add(given: Asked): void {
    const made = new AttributeFields(given, (one) => {
      this.#rows = this.#rows.filter((row) => row !== one);
      this.#arrange();
      this.#rows[0]!.focus();
      this.#later();
    });
    this.#rows.push(made);
    this.#arrange();
  }

  #arrange(): void {
    for (const [place, row] of this.#rows.entries()) row.number(place, this.#rows.length);
    this.#attributes.replaceChildren(...this.#rows.map((row) => row.root));
  }

  #later(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#work(), PAUSE);
  }

  /** Ask the collector; only the last answer counts. */
  async #work(): Promise<void> {
    const mine = ++this.#turn;
    const epsilon = this.#epsilon.valueAsNumber;
    this.#odds.textContent = epsilon > 0 ? odds(teller, epsilon) : "";
    const asked = this.#rows.map((row) => row.value());
    const plan = {
      ...{
        name: this.#name.value.trim(),
        purpose: this.#purpose.value.trim(),
        epsilon,
        attributes: asked,
      },
      ...{ people: this.#people.valueAsNumber, wanted: this.#wanted.valueAsNumber },
    };
    const lacks = asked.map(lacking).find(Boolean) ?? this.#lacks(plan);
    if (lacks) return this.#show(null, lacks, plan.name);
    this.#status.textContent = say("working");
    const init = {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(plan),
    };
    const [planned, problem] = await ask<Planned>("v1/plan", init).then(
      (found) => [found, ""] as const,
      (why: Error) => [null, why.message] as const,
    );
    if (mine === this.#turn) this.#show(planned, problem, plan.name);
  }

  #lacks({ epsilon, people, wanted }: { epsilon: number; people: number; wanted: number }): string {
    return epsilon > 0 && Number.isInteger(people) && people > 0 && wanted > 0
      ? ""
      : say("lacksNumbers");
  }

  #show(planned: Planned | null, problem: string, name: string): void {
    [this.#status.textContent, this.#problem.textContent] = ["", problem];
    this.#result.replaceChildren(...(planned ? results(planned, name) : []));
  }
}

// --- what to expect ------------------------------------------------------------------------------

function results(
  { attributes, advice, file, file_problem: problem }: Planned,
  name: string,
): HTMLElement[] {
  const columns = [
    "name",
    "error",
    "interval",
    "asked",
    "needed",
    "liars",
    "loss",
    "mechanism",
  ] as const;
  const words = new Set<string>(["name", "mechanism"]);
  const head = columns.map((key) =>
    make("th", { scope: "col", class: words.has(key) ? undefined : "number" }, say(key)),
  );
  const rows = attributes.map(planRow);
  const table = make(
    "table",
    {},
    make("thead", {}, make("tr", {}, ...head)),
    make("tbody", {}, ...rows),
  );
  const reasons = attributes.map((row) =>
    make("li", { dir: "auto" }, `${row.name}: ${row.mechanism}, ${row.reason}`),
  );
  return [
    make(
      "div",
      { class: "wide", tabindex: "0", role: "region", "aria-label": say("result") },
      table,
    ),
    ...(advice ? [make("h3", {}, say("advice")), make("p", {}, advice)] : []),
    make("h3", {}, say("why")),
    make("ul", {}, ...reasons),
    make("h3", {}, say("file")),
    ...(file ? fileParts(file, name) : [make("p", { role: "alert" }, problem)]),
  ];
}

function fileParts(file: string, name: string): HTMLElement[] {
  const button = make("button", { type: "button" }, say("download"));
  button.addEventListener("click", () =>
    save(`${name || "campaign"}.toml`, new Blob([file], { type: "application/toml" })),
  );
  const shown = make("pre", { tabindex: "0", "aria-label": say("file") }, file);
  return [make("p", { class: "hint" }, say("fileWhy")), shown, button];
}

function planRow(row: Row): HTMLElement {
  const number = (text: string) => make("td", { class: "number" }, text);
  const show = (error: number) => amount(error, row);
  return make(
    "tr",
    {},
    make("th", { scope: "row", dir: "auto" }, row.name),
    number(show(row.stderr_in_units)),
    number(`± ${show(HALF * row.stderr_in_units)}`),
    number(percent(row.share)),
    number(whole(row.people_needed)),
    number(show(row.malicious_shift_in_units)),
    number(rough(row.loss, 4)),
    make("td", {}, row.mechanism),
  );
}

/** An error in the attribute's own unit; of a share, in percentage points. */
function amount(error: number, { k, unit }: Row): string {
  return k === null ? `${rough(error, 2)} ${unit}`.trim() : percent(error, decimals(error * 100));
}
