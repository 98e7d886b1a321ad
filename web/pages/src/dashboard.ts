/** The dashboard: campaigns, and of one of them what has arrived and what is known, live. */

import { FIGURES, intervals } from "../../client/src/sentences.js";
import { Voice } from "../../client/src/voice.js";
import { AttributeCard, type View } from "./card.js";
import { History, listen, type Changed, type Live } from "./live.js";
import { links, session, type Session } from "./operator.js";
import { ask, folded, frame, make, Refusal } from "./page.js";
import { compact, rough, saying, whole } from "./say.js";
import { DASHBOARD } from "./texts.js";
import { TrainingCards } from "./training.js";

const say = saying(DASHBOARD);
const reader = new Voice(FIGURES, "en");
/** From so many attributes on, there is a field to find one. */
const MANY = 8;

/** A pace of fewer seconds says little. */
const SHORTEST = 5;

interface Listed {
  readonly campaign: string;
  readonly purpose: string;
  readonly open: boolean;
}

void start();

async function start(): Promise<void> {
  try {
    const [own, listing] = [
      await session(),
      await ask<{ campaigns: readonly Listed[] }>("v1/campaigns"),
    ];
    const campaigns = listing.campaigns.filter((one) => own.campaigns.includes(one.campaign));
    new Dashboard(own, campaigns);
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

class Dashboard {
  readonly #list = make("ul", { class: "campaigns" });
  readonly #place = make("div");
  #shown: Shown | undefined;

  constructor(
    own: Session,
    private readonly campaigns: readonly Listed[],
  ) {
    const nav = make("nav", { "aria-label": say("campaigns") }, this.#list);
    frame(
      say("title"),
      links("dashboard", own),
      ...(campaigns.length > 1 ? [nav] : []),
      this.#place,
    );
    addEventListener("hashchange", () => this.#choose());
    this.#choose();
  }

  /** Show the campaign that the address names, or the first. */
  #choose(): void {
    const wanted = decodeURIComponent(location.hash.slice(1));
    const found = this.campaigns.find((one) => one.campaign === wanted) ?? this.campaigns[0];
    this.#list.replaceChildren(...this.campaigns.map((one) => this.#offer(one, one === found)));
    this.#shown?.end();
    this.#shown = found && new Shown(found);
    this.#place.replaceChildren(this.#shown?.root ?? make("p", {}, say("none")));
  }

  #offer({ campaign, open }: Listed, current: boolean): HTMLElement {
    const href = `#${encodeURIComponent(campaign)}`;
    const link = make(
      "a",
      { href, dir: "auto", "aria-current": current ? "true" : undefined },
      `${campaign} `,
      state(open),
    );
    return make("li", {}, link);
  }
}

function state(open: boolean): HTMLElement {
  return make("span", { class: open ? "state" : "state closed" }, say(open ? "open" : "closed"));
}

/** One campaign, for as long as it is looked at. */
class Shown {
  readonly root = make("div");
  readonly #history = new History();
  readonly #cards = new Map<string, AttributeCard>();
  readonly #grid = make("div", { class: "cards" });
  readonly #headline = make("div", { class: "headline" });
  readonly #connection = make("span", { class: "hint" }, say("connecting"));
  readonly #said = make("p", { role: "status", class: "hint" });
  readonly #warnings = make("div", { role: "alert", class: "warnings" });
  readonly #tiles = make("dl", { class: "tiles" });
  readonly #tools = make("div", { class: "tools" });
  readonly #find = make("input", { type: "search", autocomplete: "off" });
  readonly #processed = make("input", { type: "radio", name: "shares" });
  readonly #truth = make("input", { type: "checkbox" });
  readonly #legend = make("div");
  readonly #estimates = make("span", { class: "downloads" });
  #training: TrainingCards | undefined;
  #live: Live | undefined;
  #news = 0; // people who came with the last change
  #waits = false;
  readonly end: () => void;

  constructor(private readonly listed: Listed) {
    const { campaign, purpose, open } = listed;
    this.#headline.replaceChildren(
      make("h1", { dir: "auto" }, purpose || campaign),
      state(open),
      this.#connection,
    );
    const page = (href: string, text: string, name = "") =>
      make("a", { href, target: "_blank", class: name || undefined }, text);
    const estimates = (form: string, text: string) =>
      make(
        "a",
        {
          href: `v1/campaigns/${encodeURIComponent(campaign)}/estimates?format=${form}`,
          download: `${campaign}.${form}`,
        },
        text,
      );
    const ways = make(
      "div",
      { class: "links" },
      page(`c/${encodeURIComponent(campaign)}`, say("participantPage"), "button plain"),
      make("span", { class: "hint" }, say("participantHint")),
      page(`c/${encodeURIComponent(campaign)}/proof`, say("proofPage")),
      this.#estimates,
    );
    this.#estimates.append(
      make("span", { class: "hint" }, say("download")),
      estimates("csv", say("csv")),
      estimates("parquet", say("parquet")),
    );
    this.root.append(
      this.#headline,
      ways,
      this.#said,
      this.#warnings,
      this.#tiles,
      this.#tools,
      this.#legend,
      this.#grid,
    );
    this.end = listen(campaign, {
      trail: (trails) => this.#history.begin(trails),
      state: (live) => this.#state(live),
      lost: (refused) => this.#lost(refused),
    });
  }

  #state(live: Live): void {
    const first = !this.#live;
    this.#news = live.people - (this.#live?.people ?? live.people) || this.#news;
    this.#live = live;
    this.#history.add(live);
    if (first) this.#setUp(live);
    this.#connection.textContent = say("liveSince", {
      time: new Date(live.at * 1000).toLocaleTimeString(),
    });
    if (this.#said.textContent) this.#said.textContent = "";
    this.#draw();
  }

  /** Draw once per frame, and not while nobody looks. */
  #draw(): void {
    if (this.#waits) return;
    this.#waits = true;
    requestAnimationFrame(() => {
      this.#waits = false;
      const live = this.#live!;
      this.#tiles.replaceChildren(...tiles(live, this.#news));
      this.#warn(live.warnings);
      const view: View = { processed: this.#processed.checked, truth: this.#truth.checked };
      if (live.training) this.#training?.show(live.training, live);
      for (const card of live.attributes) this.#cards.get(card.name)?.show(card, live, view);
    });
  }

  /** Say it once, not at every change: a screen reader would read it again. */
  #warn(warnings: readonly string[]): void {
    const said = warnings.map((warning) => say("noCrowd", { warning }));
    if (said.join("\n") === [...this.#warnings.children].map((one) => one.textContent).join("\n"))
      return;
    this.#warnings.replaceChildren(...said.map((one) => make("p", { dir: "auto" }, one)));
  }

  #lost(refused: boolean): void {
    this.#connection.textContent = "";
    if (!refused) {
      this.#said.textContent = say("lost");
      return;
    }
    void ask("v1/session").then(
      () => (this.#said.textContent = say("failed", { problem: this.listed.campaign })),
      () =>
        this.#said.replaceChildren(
          say("ended"),
          " ",
          make("a", { href: "sign-in" }, say("signIn")),
        ),
    );
  }

  // --- what is made once -------------------------------------------------------------------------

  #setUp(live: Live): void {
    this.#grid.classList.toggle("many", live.attributes.length > MANY);
    for (const card of live.attributes) {
      const made = new AttributeCard(card, live, this.#history);
      this.#cards.set(card.name, made);
      this.#grid.append(made.root);
    }
    this.#tools.replaceChildren(...this.#controls(live));
    if (live.training) {
      this.#training = new TrainingCards();
      this.#grid.append(...this.#training.root);
      this.#estimates.hidden = true; // of a training there are none
    } else this.#legend.replaceChildren(legend(live));
  }

  #controls(live: Live): HTMLElement[] {
    const parts: HTMLElement[] = [];
    if (live.attributes.length > MANY) parts.push(this.#finder(live));
    if (live.attributes.some((card) => card.labels)) parts.push(this.#kinds());
    if (live.demo) {
      this.#truth.addEventListener("change", () => this.#draw());
      parts.push(
        make(
          "label",
          {},
          this.#truth,
          say("truth"),
          make("span", { class: "hint" }, say("truthHint")),
        ),
      );
    }
    return parts;
  }

  #finder(live: Live): HTMLElement {
    const count = make("span", { class: "hint", role: "status" });
    this.#find.addEventListener("input", () => {
      const typed = this.#find.value.trim().toLowerCase();
      let shown = 0;
      for (const card of this.#cards.values()) {
        card.root.hidden = !card.name.toLowerCase().includes(typed);
        shown += Number(!card.root.hidden);
      }
      count.textContent = typed
        ? say("attributesFound", { count: shown, all: live.attributes.length })
        : "";
    });
    return make("label", {}, say("find"), this.#find, count);
  }

  #kinds(): HTMLElement {
    const raw = make("input", { type: "radio", name: "shares", checked: true });
    for (const one of [raw, this.#processed]) one.addEventListener("change", () => this.#draw());
    const label = (input: HTMLElement, text: string) => make("label", {}, input, text);
    return make(
      "fieldset",
      {},
      make("legend", {}, say("show")),
      label(raw, say("showRaw")),
      label(this.#processed, say("showProcessed")),
    );
  }
}

function legend(live: Live): HTMLElement {
  const lines = [...intervals(reader, live.confidence), say("raw"), say("processed")];
  lines.push(say("cohortHint", { cohort: live.cohort }));
  return folded(say("intervals"), make("ul", {}, ...lines.map((line) => make("li", {}, line))));
}

// --- what has arrived ----------------------------------------------------------------------------

function tiles(live: Live, news: number): HTMLElement[] {
  const { people, people_expected: expected, loss, epsilon } = live;
  const bar = make("progress", {
    max: String(expected),
    value: String(Math.min(people, expected)),
    "aria-hidden": "true",
  });
  const more = news > 0 ? [hint(say("peopleNew", { count: news }))] : [];
  const when = live.period ? [hint(say("peopleIn", { period: live.period }))] : [];
  return [
    tile(say("people"), whole(people), ...when, hint(say("peopleOf", { expected })), bar, ...more),
    ...changed(live),
    tile(say("reports"), ...pace(live)),
    tile(say("refused"), ...refused(live)),
    tile(say("privacy"), rough(loss, 4), hint(say("privacyHint", { epsilon }))),
  ];
}

/** Whether anything has changed over all periods. */
function changed({ changed: found }: Live): HTMLElement[] {
  if (!found) return [];
  const { changed: is, p_value: p, significance: level, comparisons, attribute, item, before, after } = found;
  const values = { p: chance(p), level, count: comparisons };
  const where = say("changedWhere", { attribute, item, before, after });
  const more = is ? [hint(where)] : [];
  if (found.reporters?.changed) more.push(hint(reportersDiffer(found.reporters)));
  return [
    tile(say("changed"), say(is ? "changedYes" : "changedNo"), hint(say("changedHint", values)), ...more),
  ];
}

function reportersDiffer({ attribute, item, before, after, p_value: p }: Changed): string {
  return say("reportersDiffer", { attribute, item, before, after, p: chance(p) });
}

function chance(p: number): string {
  return p < 1e-12 ? "< 1e-12" : rough(p, 2);
}

function tile(name: string, large: string, ...rest: HTMLElement[]): HTMLElement {
  return make(
    "div",
    { class: "tile" },
    make("dt", {}, name),
    make("dd", { class: "large" }, large),
    ...rest,
  );
}

function hint(text: string): HTMLElement {
  return make("dd", { class: "hint" }, text);
}

function pace({ pace, last_report: last }: Live): [string, ...HTMLElement[]] {
  const at = last ? [hint(say("lastReport", { time: hour(last) }))] : [];
  if (!pace || pace.seconds < SHORTEST) return ["–", hint(say("reportsNone")), ...at];
  const minutes = pace.seconds / 60;
  const span = minutes < 2 ? `${rough(pace.seconds, 2)} s` : `${rough(minutes, 2)} min`;
  return [compact(pace.per_hour), hint(say("reportsOver", { span })), ...at];
}

/** The hour of a report, here; no finer time is kept. */
function hour(text: string): string {
  return new Date(text).toLocaleString([], {
    month: "short",
    day: "numeric",
    hour: "2-digit",
    minute: "2-digit",
  });
}

/** Refused by reason; what a device sent twice is counted once, and is no refusal. */
function refused({
  outcomes,
  balanced,
  merged_collectors: merged,
}: Live): [string, ...HTMLElement[]] {
  const { stored: _stored, duplicate = 0, ...reasons } = outcomes;
  const rows = Object.entries(reasons).filter(([, count]) => count);
  const all = rows.reduce((sum, [, count]) => sum + count, 0);
  const parts = rows.map(([reason, count]) =>
    hint(`${reason.replace(/^refused:/, "")}: ${whole(count)}`),
  );
  if (duplicate) parts.push(hint(say("duplicates", { count: duplicate })));
  if (merged) parts.push(hint(say("merged", { count: merged })));
  if (!balanced) parts.push(make("dd", { role: "alert" }, say("unbalanced")));
  return [whole(all), ...parts];
}
