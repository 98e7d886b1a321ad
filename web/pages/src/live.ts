/** What an open dashboard is sent: the types of `src/murmuration/server/live.py`, and the stream. */

export interface Running {
  readonly n: number;
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

/** A mean, a label's share, or the share that answered. */
export interface Shown {
  readonly item: string;
  readonly value: number;
  readonly stderr: number | null;
  readonly low: number | null;
  readonly high: number | null;
  readonly n: number;
  readonly unit: string;
  readonly note: string;
  readonly processed: number | null;
  readonly running: Running | null;
  readonly truth: number | null;
  readonly liars: number | null;
}

export interface Bin {
  readonly low: number;
  readonly high: number;
  readonly share: number;
}

/** One figure over all periods that show it, the oldest first. */
export interface TrendLine {
  readonly item: string;
  readonly points: readonly TrendPoint[];
}

export interface TrendPoint {
  readonly period: string;
  readonly value: number;
  readonly low: number | null;
  readonly high: number | null;
  readonly n: number;
}

/** Whether anything has changed over all periods; `reporters`: the same of those who reported. */
export interface Changed {
  readonly changed: boolean;
  readonly p_value: number;
  readonly significance: number;
  readonly comparisons: number;
  readonly attribute: string;
  readonly item: string;
  readonly before: string;
  readonly after: string;
  readonly about: string;
  readonly reporters: Changed | null;
}

/** By how much a figure has changed since an earlier period. */
export interface Change {
  readonly attribute: string;
  readonly item: string;
  readonly before: string;
  readonly after: string;
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

export interface Card {
  readonly name: string;
  readonly kind: string;
  readonly unit: string;
  readonly low: number | null;
  readonly high: number | null;
  readonly labels: number;
  readonly answers: number;
  readonly needed: number;
  readonly hidden: boolean;
  readonly missing: boolean;
  readonly share_asked: number;
  readonly mechanisms: readonly string[];
  readonly figures: readonly Shown[];
  readonly left_out: number;
  readonly bins: readonly Bin[];
  readonly bins_note: string;
  readonly levels: readonly {
    readonly name: string;
    readonly epsilon: number;
    readonly answers: number;
  }[];
  readonly assumption: string;
  readonly steps: readonly string[];
  readonly note: string;
  readonly running_note: string;
  readonly forecast: {
    readonly people: number;
    readonly stderr: number | null;
    readonly half: number | null;
    readonly planned: number;
  };
  readonly liars: { readonly share: number; readonly shift: number } | null;
  readonly trend: readonly TrendLine[];
}

/** A question of a round, and how many have answered it. */
export interface Asking {
  readonly question: string;
  readonly people: number;
}

export interface RoundState {
  readonly number: number;
  readonly state: string;
  readonly people: number;
  readonly size: number;
  readonly opened: number;
  readonly deadline: number | null;
  readonly asks: readonly Asking[];
}

export interface Point {
  readonly asked: number;
  readonly gained: number;
  readonly doubt: number;
}

export interface Score {
  readonly value: number;
  readonly stderr: number;
  readonly low: number;
  readonly high: number;
  readonly n: number;
  readonly unit: string;
  readonly note: string;
}

export interface Coefficient {
  readonly name: string;
  readonly value: number;
  readonly stderr: number;
  readonly unit: string;
}

/** A training: its rounds, how far reports say that it has come, and what it has ended with. */
export interface TrainingState {
  readonly model: string;
  readonly target: string;
  readonly rounds: readonly RoundState[];
  readonly curve: readonly Point[];
  readonly score: Score | null;
  readonly coefficients: readonly Coefficient[];
  readonly ended: boolean;
  readonly notes: readonly string[];
  readonly liars: ModelLiars | null;
}

/** How far liars have moved something, at most: if they are in every round, and if they wait. */
export interface Moved {
  readonly even: number;
  readonly waiting: number;
}

export interface ModelLiars {
  readonly share: number;
  readonly score: Moved | null;
  readonly coefficients: readonly (Moved | null)[];
}

export interface Live {
  readonly campaign: string;
  readonly version: number;
  readonly digest: string;
  readonly purpose: string;
  readonly open: boolean;
  readonly at: number;
  readonly confidence: number;
  readonly epsilon: number;
  readonly loss: number;
  readonly people: number;
  readonly reports: number;
  readonly people_expected: number;
  readonly cohort: number;
  readonly received: number;
  readonly outcomes: Readonly<Record<string, number>>;
  readonly balanced: boolean;
  readonly merged_collectors: number;
  readonly last_report: string;
  readonly pace: { readonly per_hour: number; readonly seconds: number } | null;
  readonly attributes: readonly Card[];
  readonly demo: boolean;
  readonly warnings: readonly string[];
  readonly period: string;
  readonly periods: readonly {
    readonly name: string;
    readonly people: number;
    readonly shown: boolean;
  }[];
  readonly changes: readonly Change[];
  readonly changed: Changed | null;
  readonly training: TrainingState | null;
}

export interface Trails {
  readonly trails: readonly {
    readonly attribute: string;
    readonly item: string;
    readonly looks: readonly Running[];
  }[];
}

/** How running figures have come here: by attribute and item. */
export class History {
  readonly #looks = new Map<string, Running[]>();
  /** So many looks are kept: of more, every second one goes. */
  static readonly MOST = 600;

  begin({ trails }: Trails): void {
    this.#looks.clear();
    for (const { attribute, item, looks } of trails)
      this.#looks.set(key(attribute, item), [...looks]);
  }

  add({ attributes }: Live): void {
    for (const { name, figures } of attributes) {
      for (const { item, running } of figures) if (running) this.#look(key(name, item), running);
    }
  }

  #look(name: string, running: Running): void {
    const looks = this.#looks.get(name) ?? [];
    if (looks.at(-1)?.n === running.n) return;
    looks.push(running);
    const last = looks.length - 1;
    const kept =
      looks.length > History.MOST
        ? looks.filter((_, place) => place % 2 === 0 || place === last)
        : looks;
    this.#looks.set(name, kept);
  }

  of(attribute: string, item: string): readonly Running[] {
    return this.#looks.get(key(attribute, item)) ?? [];
  }
}

function key(attribute: string, item: string): string {
  return JSON.stringify([attribute, item]);
}

/** What happens on a stream. */
export interface Listener {
  state(live: Live): void;
  trail(trails: Trails): void;
  /** The connection was lost; the browser tries again by itself, unless it was refused. */
  lost(refused: boolean): void;
}

/** Listen to a campaign; the returned function ends it. */
export function listen(campaign: string, listener: Listener): () => void {
  const source = new EventSource(`v1/campaigns/${encodeURIComponent(campaign)}/live`);
  const data = (event: Event) => JSON.parse((event as MessageEvent<string>).data) as unknown;
  source.addEventListener("trail", (event) => listener.trail(data(event) as Trails));
  source.addEventListener("state", (event) => listener.state(data(event) as Live));
  source.addEventListener("error", () => listener.lost(source.readyState === EventSource.CLOSED));
  return () => source.close();
}
