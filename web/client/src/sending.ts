/** How bytes get to a collector, and one rule for trying again.
 *
 *     429, 503           the collector is busy: wait (its Retry-After, and jitter), same bytes again
 *     200                what became of the report
 *     a problem of ours  about these bytes, in the form in which collectors answer: they are
 *                        refused, and would be every time
 *     anything else      no answer about them (a token, an address, a proxy's page, a fault, no
 *                        network): an error of kind `send`; they stay, to be sent again
 *
 * Redirects are not followed, so a token goes to the host that it was given for and nowhere else.
 * No cookie and no referrer goes along, and no error repeats a body, a token or a collector's words.
 */

import type { Address } from "./address.js";
import { MurmurationError } from "./errors.js";
import { BUSY, FINAL, MOST_TOKEN } from "./protocol.js";

/** "stored", "duplicate" (it had arrived before), or "refused:<reason>". */
export type Outcome = string;

/** Problems that are about the bytes, with their status. */
const FINALS = new Map<string, number>(Object.entries(FINAL));
const PROBLEM = "application/problem+json";
const PROBLEM_TYPE = "/problems/";
const REASON = /^[a-z0-9][a-z0-9-]{0,62}$/;
const TOKEN = /^[\x21-\x7e]+$/;
/** How long a whole exchange may take: who drips holds nobody for ever. */
const MILLISECONDS = 60_000;
const MOST_ANSWER = 1 << 20;

/** What came back. */
export interface Answer {
  readonly status: number;
  readonly data: Uint8Array<ArrayBuffer>;
  /** Its media type, in small letters. */
  readonly kind: string;
  /** Seconds, if the collector named a time. */
  readonly retryAfter: number | undefined;
}

/** How often, and after how many seconds, to try again when a collector is busy.
 *
 * Waits double, and each is drawn anew between 0 and that (full jitter), so that devices which were
 * turned away together do not come back together. What the collector asks for comes first; if that
 * is more than `most`, this is given up for now.
 */
export interface Patience {
  readonly attempts: number;
  readonly first: number;
  readonly most: number;
  /** Seconds for all of it, waits and answers that drip. */
  readonly whole?: number;
}

export const PATIENCE: Patience = { attempts: 6, first: 0.5, most: 60, whole: 180 };

/** Fetch a campaign's document, up to so many bytes; it is public: no token goes along. */
export function get(where: Address, most: number): Promise<Answer> {
  return exchange(where, where.url, { headers: { Accept: "application/json" } }, most);
}

/** Send bytes, the same ones again while the collector is busy. */
export async function deliver(
  where: Address,
  body: string,
  token: string | undefined,
  patience: Patience,
): Promise<Answer> {
  const request = { method: "POST", body, headers: headers(token) };
  const end = performance.now() + (patience.whole ?? 180) * 1000;
  for (let attempt = 0; ; attempt++) {
    const left = end - performance.now();
    const answer = await exchange(where, `${where.url}/reports`, request, MOST_ANSWER, left);
    if (!(BUSY as readonly number[]).includes(answer.status)) return answer;
    const asked = answer.retryAfter ?? 0;
    if (attempt + 1 >= patience.attempts || asked > patience.most) {
      throw new MurmurationError("send", `${where.url} is busy (after ${attempt + 1} attempts)`);
    }
    const wait = asked + jitter(Math.min(patience.most, patience.first * 2 ** attempt));
    if (performance.now() + wait * 1000 >= end) {
      throw new MurmurationError("send", `${where.url} is busy, and this call has lasted long enough`);
    }
    await pause(wait);
  }
}

function headers(token: string | undefined): Record<string, string> {
  const usual = { "Content-Type": "application/json", Accept: "application/json" };
  if (token === undefined) return usual;
  if (!TOKEN.test(token) || token.length > MOST_TOKEN) {
    throw new MurmurationError("parameter", "a token is one word of printable characters");
  }
  return { ...usual, Authorization: `Bearer ${token}` };
}

async function exchange(
  where: Address,
  url: string,
  request: RequestInit,
  most: number,
  left = MILLISECONDS,
): Promise<Answer> {
  try {
    const response = await fetch(url, {
      ...request,
      cache: "no-store", // an ETag that is sent back would tell who comes again, as a cookie does
      credentials: "omit",
      redirect: "error",
      referrerPolicy: "no-referrer",
      signal: AbortSignal.timeout(Math.max(0, Math.ceil(Math.min(left, MILLISECONDS)))),
    });
    const [kind = ""] = (response.headers.get("content-type") ?? "").toLowerCase().split(";");
    return {
      status: response.status,
      data: await bounded(response, most),
      kind: kind.trim(),
      retryAfter: seconds(response.headers.get("retry-after")),
    };
  } catch (problem) {
    if (problem instanceof MurmurationError) throw problem;
    throw new MurmurationError("send", `no answer from ${where.url}`);
  }
}

/** Read a body, and stop where it is too long: a short one may have been compressed. */
async function bounded(response: Response, most: number): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  let size = 0;
  const reader = response.body?.getReader();
  for (let part = await reader?.read(); part?.value; part = await reader?.read()) {
    size += part.value.length;
    if (size > most) {
      await reader?.cancel();
      throw new MurmurationError("send", `the answer is longer than ${most} bytes`);
    }
    parts.push(part.value);
  }
  return new Uint8Array(await new Blob(parts as BlobPart[]).arrayBuffer());
}

/** Read Retry-After: seconds, or a date. */
function seconds(text: string | null): number | undefined {
  if (text === null) return undefined;
  if (/^\s*\d+\s*$/.test(text)) return Number(text);
  const moment = Date.parse(text);
  return Number.isNaN(moment) ? undefined : Math.max(0, (moment - Date.now()) / 1000);
}

function jitter(most: number): number {
  return (crypto.getRandomValues(new Uint32Array(1))[0]! / 2 ** 32) * most;
}

function pause(length: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, length * 1000));
}

/** Return what became of one report. */
export function outcome(answer: Answer): Outcome {
  const refusal = final(answer);
  if (refusal !== undefined) return `refused:${refusal}`;
  if (answer.status !== 200) {
    throw new MurmurationError("send", `the collector did not take it: ${reason(answer)}`);
  }
  const { received, stored, failures } = json(answer);
  const [failure] = Array.isArray(failures) ? (failures as unknown[]) : [undefined];
  const type = typeof failure === "object" && failure ? Reflect.get(failure, "type") : undefined;
  const failed = Array.isArray(failures) ? failures.length : NaN;
  const readable = failed === 0 || typeof type === "string";
  if (received !== 1 || stored !== 1 - failed || failed > 1 || !readable) {
    throw new MurmurationError("send", "the answer cannot be read: this is not a collector");
  }
  if (stored === 1) return "stored";
  const name = named(type) ?? "unnamed";
  if (name === "early-period") {
    throw new MurmurationError("send", "its period has not begun at the collector: try again when it has");
  }
  return name === "duplicate" ? name : `refused:${name}`;
}

/** Return why a collector refuses these bytes for good; undefined if nobody has said so.
 *
 * A proxy's 400, 413 or 422 is none: it may be gone tomorrow, and a report is made once. Only a
 * problem document as collectors write it counts, about a reason that is in the list.
 */
function final(answer: Answer): string | undefined {
  const problem = json(answer);
  const type = problem.type;
  if (answer.kind !== PROBLEM || typeof type !== "string" || !problem.title) return undefined;
  const name = type.startsWith(PROBLEM_TYPE) ? type.slice(PROBLEM_TYPE.length) : "";
  const ours = problem.status === answer.status && FINALS.get(name) === answer.status;
  return ours ? name : undefined;
}

/** Return the name of a problem if it has one of the usual form, else the status. */
export function reason(answer: Answer): string {
  return named(json(answer).type) ?? `http-${answer.status}`;
}

function named(type: unknown): string | undefined {
  const name = typeof type === "string" ? type.slice(type.lastIndexOf("/") + 1) : "";
  return REASON.test(name) ? name : undefined;
}

/** What an answer or a problem may have; nothing of it is known to be so. */
interface Said {
  received?: unknown;
  stored?: unknown;
  failures?: unknown;
  type?: unknown;
  title?: unknown;
  status?: unknown;
}

function json(answer: Answer): Said {
  try {
    const found: unknown = JSON.parse(new TextDecoder().decode(answer.data));
    return typeof found === "object" && found !== null ? { ...found } : {};
  } catch {
    return {};
  }
}
