/** What the element says, in English; an app brings other languages as a table with the same keys.
 *
 * `{name}` is filled in. Numbers are written as the element's `lang` has them.
 */

import { SENTENCES } from "./sentences.js";
import { Voice } from "./voice.js";

export const ENGLISH = {
  ...SENTENCES,
  loading: "Loading the questions …",
  stays: "Your answers stay on this device. Only a randomised report is sent, to {host}.",
  sampled: "The report is about {count} of these {all} questions, drawn at random.",
  sampledTables:
    "The report is about one of these {all} questions, or about two of them together, drawn at random.",
  range: "{low} to {high}",
  rangeUnit: "{low} to {high} {unit}",
  choose: "Choose one",
  search: "Type to search {count} entries.",
  noAnswer: "No answer",
  missingAnswer: "Please answer this, too.",
  noNumber: "Please enter a number.",
  outOfRange: "Please enter a number in this range.",
  notListed: "Please choose an entry of the list.",
  level: "Privacy level",
  byLot: "Your privacy level was drawn by lot: {name}.",
  what: "What will be sent",
  whatFirst: "Answer the questions first.",
  about: "{name}",
  aboutChance: "{name} (asked with a chance of {chance})",
  item: "{label}: {chance}",
  few: "One of these is sent:",
  itemsMany: "One of {count} entries is sent, for your answer most often:",
  valuesMany: "One of {count} numbers from {low} to {high} is sent, for your answer most often:",
  support:
    "A random set is sent: with your answer in it with a chance of {own}, with any other with {other}.",
  together: "One randomised report about all questions at once.",
  example: "An example, drawn now and thrown away; what is sent is another draw:",
  send: "Send",
  sending: "Sending …",
  again: "Try again",
  thanks: "Thank you. Your report was counted.",
  thanksBefore: "Thank you. You have answered this.",
  thanksRound: "Thank you. You have answered for today.",
  notCounted: "The collector did not count your report ({reason}).",
  waiting:
    "Your report may not have arrived yet. It is kept on this device and sent again as it is.",
  asSent: "The report, as it was sent",
  spent: "Privacy spent",
  spentHere: "On this campaign: {cost}. On this collector: {collector} of {most}. In all: {all} of {limit}.",
  spentOn: "{campaign} at {host}: {cost}",
  perSite: "This is counted for {site} alone: browsers keep each site’s storage apart.",
  closed: "This campaign is not open now.",
  token: "This campaign is for invited devices only.",
  saidNone:
    "Your privacy budget does not allow your answers: the report says “no answer” instead, and cost nothing.",
  budget: "Your privacy budget does not allow this report. Nothing was sent.",
  rounds: "You have answered as often as this campaign asks. Nothing was sent.",
  changed: "This is not the campaign that this page expects. Nothing was sent.",
  refused: "This campaign cannot be trusted: it was refused. Nothing was sent.",
  storage: "This browser cannot keep what was spent, so nothing was sent.",
  unreachable: "The collector cannot be reached.",
  failed: "Something went wrong. Nothing was sent.",
} as const;

export type Texts = { readonly [Key in keyof typeof ENGLISH]: string };

/** Says the element's texts; what an app's table leaves out is English. */
export class Speaker extends Voice<Texts> {
  constructor(texts: Partial<Texts>, language = "") {
    super({ ...ENGLISH, ...texts }, language);
  }
}
