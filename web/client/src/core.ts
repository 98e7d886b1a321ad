/** What a device in a training shares with every other: collectors serve it once, in the client's file.
 *
 * `murmuration-training.js` imports these names from `murmuration-client.js`, so a page that has both
 * has the code, the ledger and the errors once.
 */

export { type Address, address } from "./address.js";
export { encode } from "./answers.js";
export { lowered, misfitsTold, requireSilence } from "./client.js";
export { approximate, type Cost, exact, sum, written as writtenCost } from "./cost.js";
export { another, terms } from "./document.js";
export { type Kind, MurmurationError } from "./errors.js";
export { fraction, larger } from "./exponential.js";
export {
  type Json,
  type Table,
  bad,
  budget,
  float,
  list,
  must,
  passingOver,
  table,
  whole,
  wholes,
  written,
} from "./form.js";
export { lawOf } from "./laws/index.js";
export { fixedPoint, picked } from "./laws/number.js";
export { law, numbers, octets, requireTaken } from "./laws/shared.js";
export { Ledger } from "./ledger.js";
export { apart, lossOf, most } from "./loss.js";
export { questionOf } from "./question.js";
export { reportBytes, spread } from "./report.js";
export { deliver, get, outcome, PATIENCE, reason } from "./sending.js";
export { BrowserStore, type Entry, MemoryStore, type Store } from "./store.js";
export { named, type Sample, sample } from "./strategy.js";
export { drawn, digestOf, hex, Keyed, WHOLE } from "./words.js";
