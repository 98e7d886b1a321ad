/** What passes through the core: a document becomes a `Campaign`, raw values become answers, and
 * answers and a secret become a report.
 *
 *     readDocument(bytes, {address, digest})  -->  Promise<Campaign>     document.ts
 *     encode(campaign, raw values)            -->  Answer[]              answers.ts
 *     draw(campaign, answers, {secret, ...})  -->  Promise<Drawn>        report.ts
 *     explain(campaign, answers, level)       -->  Explained[]           explain.ts
 *     example(campaign, answers, level)       -->  Report                explain.ts
 *
 * Nothing here stores, sends or shows anything.
 */

import type { Every } from "./periods.js";
import type { UPLOADS } from "./protocol.js";
import type { Words } from "./words.js";

/** What a person, a form or a file gives. */
export type Raw = string | number | boolean | null | undefined;
export type RawAnswers = Readonly<Record<string, Raw>>;

/** A level for all attributes, or one for each by its name. */
export type Level = string | Readonly<Record<string, string>>;

/** One attribute, as the campaign asks it. */
export interface Question {
  readonly name: string;
  readonly kind: "number" | "category" | "distribution" | "graded" | "table";
  /** The range of a number. */
  readonly low: number;
  readonly high: number;
  readonly unit: string;
  /** Of a category, or the cells of a table; empty for a number. */
  readonly labels: readonly string[];
  /** What becomes of other answers: "clamp", "refuse", "spread", "no answer", or a label. */
  readonly outside: string;
  /** Whether a person may have no answer: then that is an answer, too. */
  readonly missing: boolean;
  readonly case: "exact" | "ignore";
  /** Texts that stand for no answer. */
  readonly markers: readonly string[];
  /** The attribute of which it says whether the answer fitted, by the device itself; else empty. */
  readonly checks: string;
  /** Of a table, the two attributes that it is of; else empty. The device answers it by itself. */
  readonly of: readonly string[];
  /** Of a table, where each of its numbers is cut. */
  readonly cuts: readonly (readonly number[])[];
}

/** An encoded answer: the place of a label, or a number from -1 to 1. No answer is the place after
 * the last label, or nan for a number. `SPREAD` is an answer that counts as a label by chance. */
export type Answer = number;
export const SPREAD = -2;

/** A fraction of integers; null is infinite. */
export type Ratio = readonly [bigint, bigint] | null;

/** The exact worst case of what a report tells. */
export interface Loss {
  /** How many times as likely a report is for one answer as for another, at most. */
  readonly ratio: Ratio;
  /** Whether all that is promised is kept: for one budget, ratio <= e^budget. */
  readonly kept: boolean;
  /** ln(ratio), rounded up to a double; Infinity. */
  readonly epsilon: number;
  /** What `accept_loss` must say where it is not kept. */
  readonly words: string;
  /** The ratio as texts, for JSON. */
  toJSON(): object;
}

/** An answer that does not fit: which question's, and why. It names no value. */
export interface Misfit {
  readonly attribute: string;
  /** Outside of the range, or unknown: no label, no number. */
  readonly reason: "outside" | "unknown";
  /** What is wrong, in words, without the answer. */
  readonly problem: string;
}

/** What a law takes: a number, a number or none, one of k items, or several attributes at once
 * (0 for a number, k for one of k items). */
export type Domain =
  | { readonly kind: "number" | "number or none" }
  | { readonly kind: "items"; readonly k: number }
  | { readonly kind: "ball"; readonly d: number }
  | { readonly kind: "box"; readonly sizes: readonly number[] };

/** How likely what is sent is, for one answer. */
export type Chances =
  /** A report is one of a few symbols; `values` is what a number's symbols are read as (-1 to 1
   * is the range), and null where symbols are the items themselves ("none" last, for numbers). */
  | {
      readonly kind: "symbols";
      readonly probabilities: readonly number[];
      readonly values: readonly number[] | null;
    }
  /** A report speaks for several items: how often for the own one, how often for any other. */
  | { readonly kind: "support"; readonly own: number; readonly other: number }
  /** One report about several attributes: how likely the most likely one is, at most, against the
   * same report of anybody else. */
  | { readonly kind: "together"; readonly ratio: number };

/** One randomising law, checked: made from the integers of the document. */
export interface Law {
  readonly name: string;
  readonly takes: Domain;
  /** What it promises. */
  readonly budget: number;
  readonly loss: Loss;
  /** What one report costs a ledger: the budget, or more if the loss is more; where permanent
   * answers are kept, what any number of reports about one value tell. */
  readonly charge: number;
  /** Whether the mechanism is known to break its promise: needs `accept_loss`. */
  readonly broken: boolean;
  /** The bytes of a report. */
  readonly size: number;
  /** Whether coins that no answer decides are drawn: from `coins`. */
  readonly tosses: boolean;
  /** Draw a report: bytes. One answer, or one for each attribute of a box. */
  respond(answer: readonly Answer[], own: Words, coins: Words): number[];
  /** Where a question is asked again: the answer that is kept, and a report of it. */
  readonly permanent?: {
    /** Whether each value has an answer of its own; else what is kept looks at no value. */
    readonly byValue: boolean;
    /** How far apart so many reports about one value can be. */
    tell(reports: number): Ratio;
    remember(answer: Answer, own: Words): number;
    repeat(kept: number, own: Words): number[];
  };
  chances(answer: readonly Answer[]): Chances;
}

/** One law, and for what it is. */
export interface Cell {
  /** The attributes that it answers: one, or all together. */
  readonly attributes: readonly number[];
  /** The level's place; 0 where there are none. */
  readonly level: number;
  readonly law: Law;
}

/** A level that people choose, or are given by lot. */
export interface LevelOffer {
  readonly name: string;
  /** The part of epsilon that it may spend. */
  readonly factor: number;
  /** That part, never rounded up. */
  readonly epsilon: number;
}

/** A campaign that was read and checked: every law keeps its promise, or says in
 * `acceptLoss` what it costs. */
export interface Campaign {
  readonly name: string;
  /** SHA-256 of what affects a report, in hexadecimal: on every report. */
  readonly digest: string;
  /** The campaign's own version; not the wire's. */
  readonly version: number;
  // What people are told, and what the collector goes by.
  readonly purpose: string;
  readonly people: number;
  readonly opens: Date | null;
  readonly closes: Date | null;
  readonly cohort: number;
  readonly keepReports: boolean;
  /** Who may send: anyone, anyone with a device's token, or each with a token for one device. */
  readonly upload: (typeof UPLOADS)[number];
  readonly origins: readonly string[];
  // What affects a report.
  readonly epsilon: number;
  readonly strategy: "sample" | "split" | "together";
  /** How many entries a report has: one for each attribute that it is about, or one for all. */
  readonly sample: number;
  /** Cumulative weights, of 2^52, of which attribute is asked; null: all alike. */
  readonly ends: readonly number[] | null;
  readonly questions: readonly Question[];
  /** Empty where there are none. */
  readonly levels: readonly LevelOffer[];
  readonly chosen: "freely" | "by lot";
  /** By attribute and level: attribute a at level l of L is number a L + l. */
  readonly cells: readonly Cell[];
  /** The most that the campaign may ever cost one device; null: one report. */
  readonly limit: number | null;
  /** The sentence by which the operator accepts a broken promise. A person must repeat it. */
  readonly acceptLoss: string | null;
  /** The most reports of one device. */
  readonly rounds: number;
  /** What a report is about, where the question comes back by periods. */
  readonly every: Every | null;
  /** The first period, and for how many of them one permanent answer is said, where values may
   * change unseen. */
  readonly spells: { readonly first: number; readonly length: number } | null;
  /** For how many periods after its end reports of one are taken. */
  readonly grace: number;
  /** The exact loss of one report at the most open levels, against epsilon. */
  readonly loss: Loss;
  /** What each entry of the costliest report is charged. */
  readonly most: readonly number[];
  /** Whether the question may be asked again: its answers are permanent ones with noise. */
  readonly repeated: boolean;
  /** Whether "no answer" can take the place of any answer: a device without budget says that. */
  readonly canSayNone: boolean;
  /** Whether the first report also pays for "no answer", to be said once values run out. */
  readonly prepaysNone: boolean;
}

export interface ReadOptions {
  /** The campaign's address; its name must be the last part. */
  readonly address: string;
  /** The digest that the app has pinned. */
  readonly digest?: string | undefined;
}

export interface DrawOptions {
  /** The device's 32 bytes. */
  readonly secret: Uint8Array;
  /** The collector's, as `address(...).origin`: https://collector.example:443. */
  readonly origin: string;
  /** The occasion, where a question is asked again: the period's name, where there are periods;
   * else empty. */
  readonly round?: string | undefined;
  readonly level?: Level | undefined;
  /** What a memo of that name has hidden as its `answer`: what a spell began with. */
  readonly kept?: ((name: string) => Promise<string | undefined>) | undefined;
}

export interface Report {
  readonly wire: 1;
  readonly digest: string;
  /** 32 hexadecimal digits. */
  readonly id: string;
  /** The number of a cell, then the bytes of its report. */
  readonly entries: readonly (readonly number[])[];
  /** The number of the period that it is about, where the campaign has periods. */
  readonly period?: number | undefined;
}

/** A permanent answer that a report rests on: paid for once, under a name that tells nothing. */
export interface Memo {
  /** Hexadecimal. */
  readonly name: string;
  readonly charge: number;
  /** What is kept until the end of a spell, hidden, in hexadecimal. */
  readonly answer?: string | undefined;
}

/** A report, and what it costs. */
export interface Drawn {
  readonly report: Report;
  /** What to send, byte for byte. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** What each entry costs that rests on no permanent answer. */
  readonly charges: readonly number[];
  /** The permanent answers: to be paid for if they were not. */
  readonly memos: readonly Memo[];
}

/** What would be sent about one attribute, or about all together. */
export interface Explained {
  readonly attributes: readonly number[];
  /** How likely it is that a report is about it. */
  readonly asked: number;
  /** Whether the answer fits no label: it counts as one by chance, and `chances` are for the first
   * label (they are alike for every other). */
  readonly spread: boolean;
  readonly law: Law;
  readonly chances: Chances;
}
