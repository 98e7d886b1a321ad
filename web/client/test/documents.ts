/** Documents for tests, written as Python publishes them. */

import { createHash } from "node:crypto";

import { readDocument } from "../src/document.js";
import { type Json, type Table, written } from "../src/form.js";
import type { Campaign } from "../src/types.js";
import { vectors } from "./vectors.js";

export const ORIGIN = "https://collector.example:443";
export const CAMPAIGNS = ["sample", "split", "together", "levels", "missing", "repeat"];

/** Return the bytes of a document around a collection's text. */
export function around(text: string, outside: object = {}): Uint8Array {
  const { campaign } = JSON.parse(text) as { campaign: string };
  const document = {
    ...{ format: 1, campaign, version: 1, digest: createHash("sha256").update(text).digest("hex") },
    ...{ purpose: "p", people: 1000, opens: null, closes: null, cohort: 1000 },
    ...{ keep_reports: true, upload: "open", ...outside, collection: text },
  };
  return new TextEncoder().encode(JSON.stringify(document));
}

export function read(bytes: Uint8Array, name: string, digest?: string): Promise<Campaign> {
  return readDocument(bytes, { address: `https://collector.example/v1/campaigns/${name}`, digest });
}

/** Return the published text of a shared campaign. */
export function collection(name: string): string {
  return vectors(`campaigns/${name}.json`).collection as string;
}

export function shared(name: string): Promise<Campaign> {
  return read(around(collection(name)), name);
}

/** Return a campaign's document with a change, written in the one form. */
export function changed(name: string, change: (found: Table) => void): Uint8Array {
  const found = JSON.parse(collection(name)) as Table;
  if (found["levels"]) found["levels"] = Object.entries(found["levels"]) as Json;
  change(found);
  return around(written(found));
}
