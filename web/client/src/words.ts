/** Random words: 64 bits each, little-endian, of which laws use the top 52. Such numbers, and sums
 * of two of them, are exact in doubles.
 *
 * A device's words follow from its secret and from what they are for:
 *
 *     key    = HMAC-SHA-256(secret, context)
 *     block  = HMAC-SHA-256(key, number of the block from 0 on, 8 bytes, big-endian)
 *     words  = 4 from each block, in order
 *
 * so the same answer has the same report again, also on a device that was restored from a backup.
 */

import { MurmurationError } from "./errors.js";

/** 2^52: what weights are out of. */
export const WHOLE = 2 ** 52;
const WORD_BYTES = 8;
const BLOCK_BYTES = 32;
/** Words to begin with; most laws need no more. And the most that any needs. */
const FEW = 8;
const MOST = 1 << 19;
/** So many blocks are made at once. */
const SLICE = 1 << 10;

type Bytes = Uint8Array<ArrayBuffer>;
/** Thrown where a law needs more words than there are: it is drawn again, with more of them. */
const SHORT = new Error("there are no more words");

/** The words of one purpose, from the first on. */
export class Words {
  #at = 0;

  constructor(readonly bytes: Uint8Array) {}

  /** The next word's top 52 bits. */
  word(): number {
    const [low, high] = this.halves(2) as [number, number];
    return high * 2 ** 20 + (low >>> 12);
  }

  /** The next n bytes; no word is left in part. */
  octets(n: number): Uint8Array {
    const start = this.#at;
    this.#at += Math.ceil(n / WORD_BYTES) * WORD_BYTES;
    if (this.#at > this.bytes.length) throw SHORT;
    return this.bytes.subarray(start, start + n);
  }

  /** The next n half words of 32 bits. */
  halves(n: number): number[] {
    const octets = this.octets(4 * n);
    const view = new DataView(octets.buffer, octets.byteOffset);
    return Array.from({ length: n }, (_, i) => view.getUint32(4 * i, true));
  }

  /** A whole number below bound, exactly uniform: past the last whole turn it is drawn again. */
  below(bound: number): number {
    return this.allBelow(bound, 1)[0]!;
  }

  /** n of them: all are drawn before any is drawn again. */
  allBelow(bound: number, n: number): number[] {
    const turns = WHOLE - (WHOLE % bound);
    const found = Array.from({ length: n }, () => this.word());
    for (let late = true; late;) {
      late = false;
      found.forEach((word, i) => {
        if (word < turns) return;
        found[i] = this.word();
        late = true;
      });
    }
    return found.map((word) => word % bound);
  }
}

/** A stream of words that can be had as long as need be. */
export type Stream = (words: number) => Promise<Words>;

/** Draw from streams, with more words if they do not suffice: nothing is kept in between. */
export async function drawn<T>(
  streams: readonly Stream[],
  use: (...words: Words[]) => T,
): Promise<T> {
  for (let n = FEW; n <= MOST; n *= 4) {
    const words = await Promise.all(streams.map((stream) => stream(n)));
    try {
      return use(...words);
    } catch (problem) {
      if (problem !== SHORT) throw problem;
    }
  }
  throw new MurmurationError("promise", "a law takes words without end. Nothing was sent.");
}

/** Fresh words of the operating system, for what is drawn and thrown away. */
export function system(): Stream {
  let bytes = new Uint8Array(0);
  return (n) => {
    const longer = new Uint8Array(n * WORD_BYTES);
    const most = 1 << 16; // bytes that one call gives
    for (let at = bytes.length; at < longer.length; at += most) {
      crypto.getRandomValues(longer.subarray(at, at + most));
    }
    longer.set(bytes);
    bytes = longer;
    return Promise.resolve(new Words(bytes));
  };
}

/** A part of a context: text is written in UTF-8. */
export type Part = string | Uint8Array;

/** Write parts so that no two lists of them are the same: each with its length before it. */
export function context(parts: readonly Part[]): Bytes {
  const octets = parts.map((part) => (typeof part === "string" ? utf8(part) : part));
  const written = new Uint8Array(octets.reduce((sum, part) => sum + 4 + part.length, 0));
  let at = 0;
  for (const part of octets) {
    new DataView(written.buffer).setUint32(at, part.length);
    written.set(part, at + 4);
    at += 4 + part.length;
  }
  return written;
}

/** Names and words that follow from a secret; every context begins with the same parts. */
export class Keyed {
  readonly #key: Promise<CryptoKey>;

  constructor(
    secret: Uint8Array,
    readonly parts: readonly Part[],
  ) {
    if (secret.length !== BLOCK_BYTES) {
      throw new MurmurationError("parameter", `a secret is ${BLOCK_BYTES} bytes`);
    }
    this.#key = hmacKey(secret);
  }

  /** 32 bytes that stand for these parts, and tell nothing about them. */
  async name(...parts: Part[]): Promise<Bytes> {
    return sign(await this.#key, context([...this.parts, ...parts]));
  }

  /** The words for a purpose. */
  stream(...parts: Part[]): Stream {
    const key = this.name(...parts).then(hmacKey);
    return async (n) =>
      new Words(await blocks(await key, Math.ceil((n * WORD_BYTES) / BLOCK_BYTES)));
  }
}

async function blocks(key: CryptoKey, n: number): Promise<Bytes> {
  const whole = new Uint8Array(n * BLOCK_BYTES);
  for (let start = 0; start < n; start += SLICE) {
    const slice = Array.from({ length: Math.min(SLICE, n - start) }, async (_, i) => {
      const number = new Uint8Array(8);
      new DataView(number.buffer).setUint32(4, start + i);
      whole.set(await sign(key, number), (start + i) * BLOCK_BYTES);
    });
    await Promise.all(slice);
  }
  return whole;
}

function hmacKey(secret: Uint8Array): Promise<CryptoKey> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  return subtle().importKey("raw", secret as Bytes, algorithm, false, ["sign"]);
}

async function sign(key: CryptoKey, message: Bytes): Promise<Bytes> {
  return new Uint8Array(await subtle().sign("HMAC", key, message));
}

/** SHA-256 of a text, in hexadecimal. */
export async function digestOf(text: string): Promise<string> {
  return hex(new Uint8Array(await subtle().digest("SHA-256", utf8(text))));
}

function subtle(): SubtleCrypto {
  const found = globalThis.crypto?.subtle as SubtleCrypto | undefined;
  if (found) return found;
  throw new MurmurationError(
    "parameter",
    "there is no crypto.subtle here: it needs a page by https://",
  );
}

export function utf8(text: string): Bytes {
  return new TextEncoder().encode(text);
}

export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (octet) => octet.toString(16).padStart(2, "0")).join("");
}
