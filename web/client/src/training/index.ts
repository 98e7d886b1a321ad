/** A device for campaigns that train a model: a file of its own, as most pages need none
 * of it, which imports what it shares with the client from the client's. */

export type { ClientOptions, Receipt } from "../client.js";
export {
  type Address,
  address,
  BrowserStore,
  type Kind,
  MemoryStore,
  MurmurationError,
  type Store,
} from "../core.js";
export { type Digests, type RoundLink } from "./chain.js";
export { type Encoded, TrainingClient, answered, encoded } from "./client.js";
export { type Feature, type Round, type Training, readRound, readTraining } from "./document.js";
export { type Model, type Objective, type Role, valuesOf } from "./questions.js";
