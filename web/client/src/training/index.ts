/** A device for campaigns that train a model: a file of its own, as most pages need none of it. */

export { address, type Address } from "../address.js";
export type { ClientOptions, Receipt } from "../client.js";
export { type Kind, MurmurationError } from "../errors.js";
export { BrowserStore, MemoryStore, type Store } from "../store.js";
export { type Encoded, TrainingClient, answered, encoded } from "./client.js";
export { type Feature, type Round, type Training, readRound, readTraining } from "./document.js";
export { type Model, type Objective, type Role, valuesOf } from "./questions.js";
