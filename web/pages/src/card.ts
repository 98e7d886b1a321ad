/** One attribute on the dashboard. The skeleton is made once; each state fills it anew, so that what a
 * person has opened, typed or chosen stays.
 */

import { FIGURES, forecast, interval, intervalAlways, liars } from "../../client/src/sentences.js";
import { Voice } from "../../client/src/voice.js";
import { bars, type Bar, onScale, sequence, shape, trend } from "./chart.js";
import { gathered, savePng, saveSvg } from "./download.js";
import type { Card, History, Live, Shown } from "./live.js";
import { ask, type Content, facts, folded, make } from "./page.js";
import { decimals, fixed, percent, rough, saying } from "./say.js";
import { DASHBOARD } from "./texts.js";

const say = saying(DASHBOARD);
const reader = new Voice(FIGURES, "en");
/** So many labels are drawn; of more the largest, and a sum. */
const SHOWN = 10;
/** In this order up to so many; of more labels the largest come first. */
const FEW = 6;
/** So many lines a trend has. */
const LINES = 6;
const ANSWERED = "answered";
const MEAN = "mean";

/** How all cards are shown. */
export interface View {
  readonly processed: boolean;
  readonly truth: boolean;
}

export class AttributeCard {
  readonly root: HTMLElement;
  readonly #head = make("header");
  readonly #body = make("div");
  readonly #search = make("input", { type: "search", autocomplete: "off" });
  readonly #searching: HTMLElement;
  readonly #found = make("div");
  readonly #time = make("div");
  readonly #item = make("select");
  readonly #itemLabel: HTMLElement;
  readonly #table = make("div", {
    class: "wide",
    tabindex: "0",
    role: "region",
    "aria-label": say("table"),
  });
  readonly #tables = folded(say("table"), this.#table);
  readonly #about = make("div");
  readonly #outlook = make("dl", { class: "outlook" });
  #card: Card;
  #live: Live;
  #view: View = { processed: false, truth: false };
  #all: Promise<readonly Shown[]> | undefined;

  constructor(
    card: Card,
    live: Live,
    private readonly history: History,
  ) {
    [this.#card, this.#live] = [card, live];
    const hint = make("span", { class: "hint" }, say("searchHint", { count: card.labels }));
    this.#searching = make(
      "label",
      { class: "search" },
      `${say("search")} `,
      this.#search,
      " ",
      hint,
    );
    this.#itemLabel = make("label", { class: "item" }, `${say("overTime")} `, this.#item);
    const details = folded(say("details"), this.#about);
    const parts = [
      this.#body,
      this.#searching,
      this.#found,
      this.#time,
      this.#outlook,
      this.#tables,
      details,
    ];
    this.root = make("article", { class: "card" }, this.#head, ...parts, this.#downloads());
    this.#search.addEventListener("input", () => void this.#find());
    this.#item.addEventListener("change", () => this.#drawTime());
    this.#tables.addEventListener("toggle", () => this.#fillTable());
  }

  get name(): string {
    return this.#card.name;
  }

  /** Show a state. */
  show(card: Card, live: Live, view: View): void {
    [this.#card, this.#live, this.#view] = [card, live, view];
    const count = say("answers", { answers: card.answers });
    this.#head.replaceChildren(
      make("h2", { dir: "auto" }, card.name),
      make("span", { class: "hint" }, count),
    );
    this.#searching.hidden = card.hidden || card.labels <= SHOWN;
    for (const part of [this.#time, this.#tables, this.#found]) part.hidden = card.hidden;
    this.root.lastElementChild!.toggleAttribute("hidden", card.hidden);
    this.#body.replaceChildren(...(card.hidden ? this.#hidden() : this.#figures()));
    this.#outlook.replaceChildren(...this.#forecast());
    this.#about.replaceChildren(...this.#details());
    this.#drawTime();
    this.#fillTable();
  }

  // --- what is known -----------------------------------------------------------------------------

  #hidden(): Content[] {
    const { needed } = this.#card;
    return [make("div", { class: "hiding" }, make("p", {}, `${say("hidden", { needed })}.`))];
  }

  #figures(): Content[] {
    const { figures, bins } = this.#card;
    const answered = figures.find((one) => one.item === ANSWERED && this.#card.missing);
    const mean = figures.find((one) => one.item === MEAN && !this.#card.labels);
    const parts: Content[] = mean ? this.#mean(mean) : this.#shares();
    if (bins.length) parts.push(...this.#distribution(mean));
    if (answered) parts.push(this.#answered(answered));
    if (this.#card.levels.length) parts.push(...this.#levels());
    return parts;
  }

  #mean(mean: Shown): Content[] {
    const { name, unit, low, high } = this.#card;
    const [from, to] = [low ?? mean.value, high ?? mean.value];
    const many = decimals(mean.stderr ?? (to - from) / 100);
    const show = (value: number) => fixed(value, many);
    const once = pair(mean);
    const always = mean.running && ([mean.running.low, mean.running.high] as const);
    const level = percent(this.#live.confidence, 0);
    const [a, b] = once ?? [mean.value, mean.value];
    const label = say("chartMean", {
      name,
      value: show(mean.value),
      level,
      low: show(a),
      high: show(b),
      from,
      to,
    });
    const truth = this.#truth(mean);
    const parts: Content[] = [
      make("h3", {}, say("mean")),
      make("p", { class: "figure" }, show(mean.value), " ", make("small", { dir: "auto" }, unit)),
    ];
    if (once) parts.push(range(interval(reader, this.#live.confidence, show(a), show(b))));
    if (always)
      parts.push(range(intervalAlways(reader, show(always[0]), show(always[1]))));
    if (truth !== null) parts.push(range(say("truthIs", { value: show(truth) })));
    return [...parts, onScale({ label, from, to, value: mean.value, once, always, truth })];
  }

  #shares(): Content[] {
    const rows = this.#sorted();
    const shown = rows.slice(0, SHOWN);
    const many = digits(rows);
    const drawn = shown.map((one) => this.#bar(one));
    const rest = this.#card.labels + Number(this.#counted() > this.#card.labels) - shown.length;
    const left = Math.max(0, 1 - shown.reduce((sum, one) => sum + (one.processed ?? one.value), 0));
    const label = say("chartShares", { name: this.#card.name });
    const kind = this.#isProcessed() ? say("showProcessed") : say("showRaw");
    const title = make("h3", { class: "kind" }, `${say("share")} (${kind})`);
    const parts: Content[] = [title, bars(label, drawn, many)];
    if (rest > 0)
      parts.splice(
        1,
        0,
        make(
          "p",
          { class: "hint" },
          say("largest", { count: shown.length, rest, share: percent(left) }),
        ),
      );
    return parts;
  }

  #counted(): number {
    return this.#items().length + this.#card.left_out;
  }

  #bar(one: Shown): Bar {
    const once = pair(one);
    const { running } = one;
    return {
      label: one.item,
      value: this.#value(one),
      low: once?.[0] ?? null,
      high: once?.[1] ?? null,
      always: running && [running.low, running.high],
      truth: this.#truth(one),
    };
  }

  /** The labels' figures: in their own order if they are few, else the largest first. */
  #sorted(): Shown[] {
    const items = [...this.#items()];
    return this.#card.labels <= FEW
      ? items
      : items.sort((one, other) => this.#value(other) - this.#value(one));
  }

  #items(): readonly Shown[] {
    const { figures, missing } = this.#card;
    return figures.filter((one, place) => !(missing && place === 0 && one.item === ANSWERED));
  }

  #isProcessed(): boolean {
    return this.#view.processed && this.#card.figures.some((one) => one.processed !== null);
  }

  #value(one: Shown): number {
    return this.#view.processed ? (one.processed ?? one.value) : one.value;
  }

  #truth(one: Shown): number | null {
    return this.#view.truth ? one.truth : null;
  }

  #distribution(mean: Shown | undefined): Content[] {
    const { bins, name, bins_note: note } = this.#card;
    const label = say("chartBins", { name, from: bins[0]!.low, to: bins.at(-1)!.high });
    const truth = mean ? this.#truth(mean) : null;
    return [
      make("h3", {}, say("distribution")),
      shape(label, bins, truth),
      make("p", { class: "hint" }, note),
    ];
  }

  #answered(one: Shown): Content {
    const [low, high] = pair(one) ?? [one.value, one.value];
    const values = {
      share: percent(one.value),
      low: percent(low),
      high: percent(high),
      missing: percent(1 - one.value),
    };
    return make(
      "div",
      {},
      make("h3", {}, say("answered")),
      make("p", { class: "ranges" }, say("answeredShare", values)),
    );
  }

  #levels(): Content[] {
    const { levels, assumption } = this.#card;
    const rows = list(levels.map((one) => say("levelRow", { ...one })));
    return [make("h3", {}, say("levels")), rows, make("p", { class: "hint" }, assumption)];
  }

  // --- what is to come, and what it rests on -----------------------------------------------------

  #forecast(): Content[] {
    const { forecast: ahead, liars: lied, labels } = this.#card;
    const show = (error: number) =>
      labels
        ? percent(error, decimals(error * 100))
        : `${rough(error, 2)} ${this.#card.unit}`.trim();
    const planned = show(1.96 * ahead.planned);
    const half = ahead.half === null ? null : show(ahead.half);
    const [found, hint] = forecast(reader, 0.95, half, planned);
    const first = make(
      "div",
      {},
      make("dt", {}, say("forecast", { people: ahead.people })),
      make("dd", {}, make("strong", {}, found), make("span", { class: "hint" }, hint)),
    );
    if (this.#card.hidden) return [first];
    const [most, why] = liars(reader, lied ? show(lied.shift) : null);
    const lying = make("dd", {}, make("strong", {}, most), make("span", { class: "hint" }, why));
    return [first, make("div", {}, make("dt", {}, say("liars")), lying)];
  }

  #details(): Content[] {
    const {
      mechanisms,
      steps,
      note,
      running_note: running,
      share_asked: asked,
      figures,
    } = this.#card;
    const rows: [string, Content][] = [[say("mechanism"), [...new Set(mechanisms)].join(", ")]];
    const words = new Set(
      [note, running, ...figures.slice(0, SHOWN).map((one) => one.note)].filter(Boolean),
    );
    if (steps.length) rows.push([say("steps"), `${steps.join(", ")}. ${say("processed")}`]);
    if (words.size) rows.push([say("note"), list([...words])]);
    const share = asked < 1 ? [make("p", {}, say("asked", { share: percent(asked) }))] : [];
    return [...share, facts(rows)];
  }

  // --- over time ---------------------------------------------------------------------------------

  /** Draw the figures by period, and say what has changed since the one before. */
  #drawTrend(): void {
    const { name, trend: lines, labels } = this.#card;
    const kept = new Set(this.#sorted().slice(0, LINES).map((one) => one.item));
    const drawn = lines.filter((one) => kept.has(one.item));
    const periods = this.#live.periods.filter((one) => one.shown).map((one) => one.name);
    const unit = (value: number) => (labels ? percent(value, 1) : rough(value));
    const label = say("chartTrend", { name, from: periods[0]!, to: periods.at(-1)! });
    const own = this.#live.changes.filter((one) => one.attribute === name && kept.has(one.item));
    const words = own.map(({ item, value, low, high, before }) => {
      const [a, b, c] = [value, low, high].map((one) => this.#difference(one));
      const known = low > 0 || high < 0 ? "" : ` ${say("noChange")}`;
      const points = labels ? ` ${say("points")}` : "";
      return say("change", { item, value: a! + points, low: b!, high: c!, before }) + known;
    });
    this.#time.hidden = false;
    this.#time.replaceChildren(
      make("h3", {}, say("byPeriod")),
      trend({ label, periods, lines: drawn, unit }),
      ...(words.length ? [list(words)] : []),
    );
  }

  #difference(value: number): string {
    const { labels, unit } = this.#card;
    const sign = value > 0 ? "+" : "";
    return labels ? `${sign}${fixed(100 * value, 1)}` : `${sign}${rough(value)} ${unit}`.trim();
  }

  #drawTime(): void {
    const { name, figures, hidden, low, high, labels } = this.#card;
    if (!hidden && this.#card.trend.length) return this.#drawTrend();
    const able = hidden
      ? []
      : this.#sorted().filter((one) => this.history.of(name, one.item).length);
    this.#time.hidden = hidden;
    if (!able.length) return this.#noTime();
    this.#offer(able);
    const item = figures.find((one) => one.item === this.#item.value) ?? able[0]!;
    const looks = this.history.of(name, item.item);
    const last = looks.at(-1)!;
    const many = decimals((last.high - last.low) / 2);
    const unit = (value: number) => (labels ? percent(value, Math.max(0, many - 2)) : rough(value));
    const values = {
      name,
      item: item.item,
      low: unit(last.low),
      high: unit(last.high),
      count: last.n,
    };
    const within =
      labels || low === null || high === null ? ([-1, 2] as const) : ([low, high] as const);
    const truth = this.#truth(item);
    const drawn = sequence({
      label: say("chartTime", values),
      looks,
      within,
      truth,
      unit,
      axis: say("reportsAxis"),
    });
    const title = make("h3", {}, able.length > 1 ? this.#itemLabel : say("overTime"));
    this.#time.replaceChildren(title, drawn);
  }

  /** Say why there is no band; of a hidden attribute, nothing. */
  #noTime(): void {
    const why = make("p", { class: "hint" }, this.#card.running_note);
    this.#time.replaceChildren(make("h3", {}, say("overTime")), why);
  }

  /** Offer the items that have a trail; what was chosen stays chosen. */
  #offer(able: readonly Shown[]): void {
    const names = able.map((one) => one.item);
    const there = [...this.#item.options].map((option) => option.value);
    if (names.length === there.length && names.every((name) => there.includes(name))) return;
    const before = this.#item.value;
    this.#item.replaceChildren(...names.map((name) => make("option", { value: name }, name)));
    if (names.includes(before)) this.#item.value = before;
  }

  // --- all labels --------------------------------------------------------------------------------

  /** Show the labels that contain what was typed; all of them are fetched once. */
  async #find(): Promise<void> {
    const typed = this.#search.value.trim().toLowerCase();
    this.#body.hidden = Boolean(typed);
    if (!typed) {
      this.#all = undefined;
      return this.#found.replaceChildren();
    }
    if (!this.#all) this.#found.replaceChildren(make("p", { role: "status" }, say("searching")));
    this.#all ??= this.#fetched();
    const all = await this.#all.catch((problem: Error) => problem);
    if (this.#search.value.trim().toLowerCase() !== typed) return;
    if (all instanceof Error) {
      this.#all = undefined; // the next letter tries again
      return this.#found.replaceChildren(make("p", { role: "alert" }, all.message));
    }
    const fitting = all.filter((one) => one.item.toLowerCase().includes(typed));
    fitting.sort((one, other) => other.value - one.value);
    const shown = fitting.slice(0, SHOWN);
    const values = { count: fitting.length, text: this.#search.value, shown: shown.length };
    const words = make(
      "p",
      { role: "status" },
      say(shown.length ? "found" : "nothingFound", values),
    );
    const label = say("chartShares", { name: this.name });
    this.#found.replaceChildren(
      words,
      ...(shown.length
        ? [
            bars(
              label,
              shown.map((one) => this.#bar(one)),
              digits(shown),
            ),
          ]
        : []),
    );
  }

  async #fetched(): Promise<readonly Shown[]> {
    if (!this.#card.left_out) return this.#items();
    const path = `v1/campaigns/${encodeURIComponent(this.#live.campaign)}/estimates?format=json`;
    const found = await ask<{ estimates: readonly (Shown & { readonly attribute: string })[] }>(
      path,
    );
    const own = found.estimates.filter((one) => one.attribute === this.name);
    return own.map((one) => ({ ...one, processed: null, running: null, truth: null }));
  }

  // --- as a table, as files ----------------------------------------------------------------------

  #fillTable(): void {
    if (!this.#tables.open || this.#card.hidden) return;
    const number = (text: string) => make("td", { class: "number" }, text);
    const write = (value: number | null) => number(value === null ? "" : rough(value, 4));
    const columns = [say("item"), say("value"), say("low"), say("high"), say("processedColumn")];
    const head = columns.map((text, place) =>
      make("th", { scope: "col", class: place ? "number" : undefined }, text),
    );
    const rows = [...this.#card.figures].map((one) => {
      const name = make("th", { scope: "row", dir: "auto" }, one.item);
      return make(
        "tr",
        {},
        name,
        write(one.value),
        write(one.low),
        write(one.high),
        write(one.processed),
      );
    });
    const table = make(
      "table",
      {},
      make("thead", {}, make("tr", {}, ...head)),
      make("tbody", {}, ...rows),
    );
    this.#table.replaceChildren(table);
  }

  #downloads(): HTMLElement {
    const button = (text: string, work: (name: string, drawing: SVGElement) => void) => {
      const made = make(
        "button",
        { type: "button", "aria-label": `${say("download")} ${this.name}: ${text}` },
        text,
      );
      made.addEventListener("click", () =>
        work(fileName(`${this.#live.campaign}-${this.name}`), this.#drawing()),
      );
      return made;
    };
    const title = make("span", { class: "hint" }, say("download"));
    return make(
      "p",
      { class: "downloads" },
      title,
      button(say("png"), (...file) => void savePng(...file)),
      button(say("svg"), saveSvg),
    );
  }

  #drawing(): SVGElement {
    const charts = [...this.root.querySelectorAll<SVGElement>("svg.chart")];
    const ranges = [...this.root.querySelectorAll(".kind, .figure, .ranges, .kind + .hint")];
    const notes = [
      say("answers", { answers: this.#card.answers }),
      ...ranges.map((one) => one.textContent ?? ""),
    ];
    return gathered(this.name, notes, charts, this.root);
  }
}

function pair(one: Shown): readonly [number, number] | null {
  return one.low === null || one.high === null ? null : [one.low, one.high];
}

function range(text: string): HTMLElement {
  return make("p", { class: "ranges hint" }, text);
}

function list(rows: readonly string[]): HTMLElement {
  return make("ul", {}, ...rows.map((row) => make("li", { dir: "auto" }, row)));
}

/** Decimals of percentages, by the largest error among the shares. */
function digits(rows: readonly Shown[]): number {
  const error = Math.max(0, ...rows.map((one) => one.stderr ?? 0));
  return Math.min(3, Math.max(0, decimals(error * 100) - 1));
}

function fileName(text: string): string {
  return text.replace(/[^\p{L}\p{N}._-]+/gu, "-").slice(0, 80) || "chart";
}
