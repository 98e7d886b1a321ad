/** `<murmur-campaign src="https://collector.example/v1/campaigns/commute">`: a campaign on any page.
 *
 *     load      the campaign's questions, checked; or why it is refused
 *     ask       a form with native controls, and what will be sent
 *     send      what the ledger holds; if it does not arrive, the same again later
 *     thank     with the report as it was sent
 *
 * Attributes: `src`, `digest` (pinned), `lang`, `texts` (the id of a JSON table in the page). Events:
 * `murmur-ready` (the questions, or the thanks, are there), `murmur-sent` (detail: a receipt) and
 * `murmur-error` (detail: a MurmurationError). Answers are kept
 * nowhere, and no event, message or error has one.
 */

import { lossAt } from "./bounds.js";
import { given } from "./answers.js";
import { Client, type ClientOptions, type Receipt } from "./client.js";
import { buttons, type Control, control } from "./controls.js";
import { folded, make } from "./dom.js";
import { MurmurationError } from "./errors.js";
import { levelOffer } from "./sentences.js";
import { style } from "./style.js";
import { sentReport, told } from "./told.js";
import { Speaker, type Texts } from "./texts.js";
import type { Raw } from "./types.js";

/** Waits before a report is sent again by itself: they double up to the longest, with jitter. */
const FIRST_WAIT = 2_000;
const LONGEST_WAIT = 300_000;

/** In a worker there are no elements: the library is all that works there. */
const Base = globalThis.HTMLElement ?? (class {} as typeof HTMLElement);

export class MurmurCampaign extends Base {
  static readonly observedAttributes = ["src", "digest", "lang", "texts"];

  /** For the library: a token, lower limits, another store. Set it before the element is shown. */
  options: ClientOptions = (earlier(this, "options") as ClientOptions | undefined) ?? {};
  /** The campaign's client, once it is loaded: the page that embeds it may look at the ledger. */
  client?: Client;
  /** What the person has said so far; undefined once there is no form. For the page alone: nothing
   * of it is in an event, is kept or is sent. */
  said: (() => Said) | undefined;
  #table = earlier(this, "texts") as Partial<Texts> | undefined;
  #speaker = new Speaker({}, "en");
  #stop = new AbortController();
  readonly #main = make("div");
  readonly #status = make("p", { role: "status" });
  readonly #alert = make("p", { role: "alert" });
  readonly #spent = make("div", { part: "spent" });

  /** Texts of another language; keys that are left out are English. */
  get texts(): Partial<Texts> {
    return this.#table ?? this.#tableOfPage();
  }

  set texts(table: Partial<Texts>) {
    this.#table = table;
    this.#restart();
  }

  connectedCallback(): void {
    if (!this.shadowRoot) {
      const root = this.attachShadow({ mode: "open" });
      root.adoptedStyleSheets = [style()];
      const parts = [this.#main, this.#alert, this.#status, this.#spent];
      root.append(make("section", { part: "campaign" }, ...parts));
    }
    this.#restart();
  }

  attributeChangedCallback(_name: string, before: string | null, now: string | null): void {
    if (before !== now) this.#restart();
  }

  disconnectedCallback(): void {
    this.#stop.abort();
  }

  /** Begin anew; only the last of several changes counts. */
  #restart(): void {
    if (!this.isConnected || !this.shadowRoot) return;
    this.#stop.abort();
    const stop = (this.#stop = new AbortController());
    queueMicrotask(() => stop.signal.aborted || void this.#load(stop.signal));
  }

  #tableOfPage(): Partial<Texts> {
    const id = this.getAttribute("texts");
    const found = id && this.ownerDocument.getElementById(id)?.textContent;
    try {
      return found ? (JSON.parse(found) as Partial<Texts>) : {};
    } catch {
      return {};
    }
  }

  // --- load ------------------------------------------------------------------------------------

  async #load(signal: AbortSignal, attempt = 0): Promise<void> {
    this.#speaker = new Speaker(this.texts, this.closest<HTMLElement>("[lang]")?.lang);
    this.said = undefined;
    this.#main.replaceChildren();
    this.#spent.replaceChildren();
    this.#say("loading");
    try {
      const client = await Client.open(this.#address(), {
        digest: this.getAttribute("digest") ?? undefined,
        ...this.options,
      });
      const made = await client.made();
      if (signal.aborted) return;
      this.client = client;
      if (!made) await this.#ask(client, signal);
      else if (made.outcome === null) await this.#again(client, signal);
      else this.#thank(client, made.outcome, made.report, false);
      await this.#showSpent(client);
      this.#tell("murmur-ready");
    } catch (problem) {
      if (signal.aborted) return;
      this.#fail(problem);
      const again = () => void this.#load(signal, attempt + 1);
      if (isUnsent(problem)) this.#main.replaceChildren(this.#retry(signal, attempt, again));
    }
  }

  #address(): string {
    const src = this.getAttribute("src") ?? "";
    const base = this.ownerDocument.baseURI;
    return URL.canParse(src, base) ? new URL(src, base).href : src;
  }

  // --- ask -------------------------------------------------------------------------------------

  async #ask(client: Client, signal: AbortSignal): Promise<void> {
    const { campaign, address } = client;
    const speaker = this.#speaker;
    const questions = given(campaign);
    const asked = questions.map((one, place) => control(one, `q${place}`, speaker));
    const level = await this.#levels(client);
    const controls = level.control ? [...asked, level.control] : asked;
    const answers = () =>
      Object.fromEntries(questions.map((one, place) => [one.name, asked[place]!.value()]));
    this.said = () => ({ answers: answers(), level: level.chosen() });
    const form = make("form", { novalidate: true }, ...controls.map((one) => one.root), ...level.note);
    const button = make("button", { part: "send" }, speaker.say("send"));
    form.append(this.#what(client, form, controls, answers, level.chosen), button);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.#complete(controls)) void this.#send(client, signal, button, answers(), level.chosen());
    });
    const sampled = campaign.strategy === "sample" && campaign.sample < questions.length;
    const tables = campaign.questions.some(({ of }) => of.length);
    const counts = { count: campaign.sample, all: questions.length };
    this.#main.replaceChildren(
      make("h2", { part: "purpose", dir: "auto" }, campaign.purpose),
      make("p", {}, speaker.say("stays", { host: hostOf(address.origin) })),
      ...(sampled ? [make("p", {}, speaker.say(tables ? "sampledTables" : "sampled", counts))] : []),
      form,
    );
    this.#say();
  }

  /** The levels: chosen by the person, or drawn by lot from the device's secret. */
  async #levels(client: Client): Promise<LevelChoice> {
    const { levels, chosen } = client.campaign;
    const speaker = this.#speaker;
    if (!levels.length) return { chosen: () => undefined, note: [] };
    if (chosen === "by lot") {
      const name = await client.lot();
      return { chosen: () => name, note: [make("p", {}, speaker.say("byLot", { name: name ?? "" }))] };
    }
    const offers = levels.map(({ name }, place): [string, string] => {
      return [String(place), levelOffer(speaker, name, lossAt(client.campaign, name))];
    });
    const value = (key: string) => levels[Number(key)]?.name;
    const made = buttons(speaker.say("level"), offers, "level", speaker, value);
    return { control: made, chosen: () => made.value() as string | undefined, note: [] };
  }

  /** Say what would be sent, for the answers as they stand; anew whenever they change. */
  #what(
    client: Client,
    form: HTMLFormElement,
    controls: readonly Control[],
    answers: () => Record<string, Raw>,
    level: () => string | undefined,
  ): HTMLElement {
    const speaker = this.#speaker;
    const first = () => [make("p", {}, speaker.say("whatFirst"))];
    const shown = make("div", {}, ...first());
    const part = folded(speaker.say("what"), shown);
    let turn = 0;
    const tell = async () => {
      const mine = ++turn;
      if (!part.open) return;
      const whole = controls.every((one) => one.value() !== undefined);
      const preview = whole ? client.preview(answers(), { level: level() }) : undefined;
      const words = await preview?.then((found) => told(client.campaign, found, speaker), first);
      if (mine === turn) shown.replaceChildren(...(words ?? first()));
    };
    part.addEventListener("toggle", () => void tell());
    form.addEventListener("change", () => void tell());
    return part;
  }

  /** Whether all questions are answered; else the first that is not has the focus. */
  #complete(controls: readonly Control[]): boolean {
    const wrong = controls.filter((one) => !one.check());
    wrong[0]?.focus();
    return !wrong.length;
  }

  // --- send ------------------------------------------------------------------------------------

  async #send(
    client: Client,
    signal: AbortSignal,
    button: HTMLButtonElement,
    answers: Record<string, Raw>,
    level: string | undefined,
  ): Promise<void> {
    if (button.disabled) return;
    button.disabled = true;
    this.#say("sending");
    try {
      this.#arrived(client, await client.report(answers, { level }), true);
    } catch (problem) {
      button.disabled = false;
      if (isUnsent(problem)) this.#unsent(client, signal, problem, 0);
      else this.#fail(problem);
    }
    await this.#showSpent(client);
  }

  /** Send again what was charged and has not arrived: the same bytes. */
  async #again(client: Client, signal: AbortSignal, attempt = 0): Promise<void> {
    if (signal.aborted) return;
    this.#say("sending");
    try {
      const [receipt] = await client.resend();
      if (receipt) return this.#arrived(client, receipt, attempt > 0);
      const made = await client.made(); // another tab was faster
      if (made) this.#thank(client, made.outcome ?? "", made.report, false);
    } catch (problem) {
      this.#unsent(client, signal, problem, attempt);
    }
  }

  #arrived(client: Client, receipt: Receipt, now: boolean): void {
    this.#thank(client, receipt.outcome, receipt.report, now);
    if (receipt.outOfBudget) this.#main.append(make("p", {}, this.#speaker.say("saidNone")));
    this.#tell("murmur-sent", receipt);
  }

  /** Say that a report waits, whatever went wrong: it is sent again later. It may have arrived, so
   * that nothing was sent is not said, and no form is offered. */
  #unsent(client: Client, signal: AbortSignal, problem: unknown, attempt: number): void {
    const button = this.#retry(signal, attempt, () => void this.#again(client, signal, attempt + 1));
    const heading = title(this.#speaker.say("waiting"));
    this.#main.replaceChildren(heading, button);
    this.#say();
    if (attempt) return;
    heading.focus(); // read aloud; the button that had the focus is gone
    this.#tell("murmur-error", known(problem));
  }

  /** Try again after a while, when there is a network again, or by the button that is returned. */
  #retry(signal: AbortSignal, attempt: number, work: () => void): HTMLElement {
    const button = make("button", { type: "button", part: "send" }, this.#speaker.say("again"));
    const turn = new AbortController();
    const options = { signal: AbortSignal.any([turn.signal, signal]) };
    const again = () => {
      turn.abort();
      work();
    };
    const most = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** attempt);
    const timer = setTimeout(again, (most * (1 + Math.random())) / 2);
    options.signal.addEventListener("abort", () => clearTimeout(timer));
    button.addEventListener("click", again, options);
    addEventListener("online", again, options);
    return button;
  }

  // --- thank -----------------------------------------------------------------------------------

  #thank(client: Client, outcome: string, report: string | null, now: boolean): void {
    const speaker = this.#speaker;
    const reason = /^refused:(.*)/.exec(outcome)?.[1];
    const before = client.campaign.repeated ? "thanksRound" : "thanksBefore";
    const words = reason ? speaker.say("notCounted", { reason }) : speaker.say(now ? "thanks" : before);
    const heading = title(words);
    this.said = undefined;
    this.#main.replaceChildren(heading, ...sentReport(report, speaker));
    this.#say();
    if (now) heading.focus(); // read aloud; the button that had the focus is gone
  }

  // --- what was spent --------------------------------------------------------------------------

  async #showSpent(client: Client): Promise<void> {
    const speaker = this.#speaker;
    const spending = await client.spending().catch(() => null); // what was said above stays said
    if (!spending) return this.#spent.replaceChildren();
    const { campaign, collector, all, limits, totals } = spending;
    const rough = (cost: number) => speaker.rough(cost);
    const sums = {
      ...{ cost: rough(campaign), collector: rough(collector), most: rough(limits.collector) },
      ...{ all: rough(all), limit: rough(limits.lifetime) },
    };
    const rows = totals.map((one) => {
      const host = hostOf(one.origin);
      const values = { campaign: one.campaign, host, cost: rough(one.epsilon) };
      return make("li", { dir: "auto" }, speaker.say("spentOn", values));
    });
    const site = make("p", { part: "note" }, speaker.say("perSite", { site: location.host }));
    const sentence = make("p", {}, speaker.say("spentHere", sums));
    const list = rows.length ? [make("ul", {}, ...rows)] : [];
    this.#spent.replaceChildren(folded(speaker.say("spent"), sentence, ...list, site));
  }

  // --- what is said ----------------------------------------------------------------------------

  /** Say what is going on, where screen readers listen; nothing, without a key. */
  #say(key?: keyof Texts): void {
    this.#alert.textContent = "";
    this.#status.textContent = key ? this.#speaker.say(key) : "";
  }

  #fail(problem: unknown): void {
    const found = known(problem);
    this.#say();
    this.#alert.textContent = this.#speaker.say(explanation(found));
    this.#tell("murmur-error", found);
  }

  #tell(name: string, detail?: Receipt | MurmurationError): void {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
  }
}

/** Return what a page has set before the element was known: it would hide the property itself. */
function earlier(element: object, name: string): unknown {
  const value: unknown = Object.getOwnPropertyDescriptor(element, name)?.value;
  Reflect.deleteProperty(element, name);
  return value;
}

/** The answers as they stand: undefined is none yet. */
export interface Said {
  readonly answers: Readonly<Record<string, Raw>>;
  readonly level: string | undefined;
}

interface LevelChoice {
  readonly control?: Control;
  chosen(): string | undefined;
  readonly note: readonly HTMLElement[];
}

/** Whether it is worth another try. */
function isUnsent(problem: unknown): problem is MurmurationError {
  return problem instanceof MurmurationError && problem.kind === "send";
}

function known(problem: unknown): MurmurationError {
  const ours = problem instanceof MurmurationError;
  return ours ? problem : new MurmurationError("parameter", "something went wrong");
}

/** Return what to say about an error. */
function explanation({ kind, reason }: MurmurationError): keyof Texts {
  if (kind === "budget") return reason === "rounds" ? "rounds" : "budget";
  if (kind === "mismatch") return "changed";
  if (kind === "format" || kind === "promise") return "refused";
  if (kind === "ledger") return "storage";
  if (kind === "send") return "unreachable";
  return reason === "closed" || reason === "token" ? reason : "failed";
}

/** A heading that can have the focus. */
function title(text: string): HTMLElement {
  return make("h3", { tabindex: "-1" }, text);
}

function hostOf(origin: string): string {
  return new URL(origin).host;
}
