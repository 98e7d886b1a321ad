/** A device for Murmuration campaigns, in browsers, web workers and node. */

export { address, type Address } from "./address.js";
export {
  Client,
  type ClientOptions,
  type Occasion,
  type Preview,
  type Receipt,
  type Spending,
} from "./client.js";
export { type Bound, boundOf, lossAt } from "./bounds.js";
export { approximate, type Cost, exact } from "./cost.js";
export { encode, misfitsOf } from "./answers.js";
export { readDocument } from "./document.js";
export { type Kind, MurmurationError } from "./errors.js";
export { example, explain } from "./explain.js";
export { type Charge, type Charged, Ledger } from "./ledger.js";
export { type Every, nameOf, numberOf, periodOf } from "./periods.js";
export { draw } from "./report.js";
export type { Patience } from "./sending.js";
export {
  type Book,
  BrowserStore,
  type Entry,
  type Limits,
  MemoryStore,
  newBook,
  type Store,
} from "./store.js";
export * as sentences from "./sentences.js";
export type * from "./types.js";
export { Voice } from "./voice.js";
