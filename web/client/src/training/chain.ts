/** Rounds that follow each other: each names the digest of the round before, the first one the
 * campaign's. So one round's digest stands for all rounds up to it. */

import { MurmurationError } from "../core.js";

/** Digests of rounds by their numbers; the campaign's is that of round 0. */
export type Digests = Readonly<Record<number, string>>;

/** A round in its chain. */
export interface RoundLink {
  readonly number: number;
  readonly digest: string;
  /** The digest of the round before. */
  readonly after: string;
}

const TOLD: Readonly<Record<string, string>> = {
  "two-rounds": "another round of this number is known: this device may have been given its own",
  "does-not-follow": "it does not follow the round before, as this device knows it",
  "earlier-round": "a later round is known already, and rounds do not go back",
};

/** Return the digests that were shown and those that are pinned, which must agree. */
export function joined(shown: Digests, pins: Digests): Digests {
  for (const [key, digest] of Object.entries(pins)) {
    const number = Number(key);
    if (!Number.isInteger(number) || number < 1 || !/^[0-9a-f]{64}$/.test(digest)) {
      throw new MurmurationError("parameter", "rounds: a number from 1 on, and 64 hex digits");
    }
    if ((shown[number] ?? digest) !== digest) throw refusal(number, "two-rounds");
  }
  return { ...shown, ...pins };
}

/** Return the rounds after `start` up to this one, or refuse what does not follow.
 *
 * `fetch` returns a round before; left out, `start` is the nearest one that is known, and where none
 * is, there is nothing to hold this one against but what it follows. */
export async function followed(
  link: RoundLink,
  known: Digests,
  fetch: (number: number) => Promise<RoundLink>,
  start = nearest(link, known),
): Promise<RoundLink[]> {
  require(link, known);
  const links = [link];
  while (links[0]!.number > start + 1) {
    const { number, after } = links[0]!;
    const before = await fetch(number - 1);
    if (before.digest !== after) throw refusal(number, "does-not-follow");
    require(before, Object.fromEntries(Object.entries(known).filter(([one]) => Number(one) < number)));
    links.unshift(before);
  }
  return links;
}

function nearest({ number }: RoundLink, known: Digests): number {
  const earlier = Object.keys(known).map(Number).filter((one) => 0 < one && one < number);
  return earlier.length ? Math.max(...earlier) : number - 1;
}

function require({ number, digest, after }: RoundLink, known: Digests): void {
  if ((known[number] ?? digest) !== digest) throw refusal(number, "two-rounds");
  if ((known[number - 1] ?? after) !== after) throw refusal(number, "does-not-follow");
  if (Object.keys(known).some((one) => Number(one) > number)) throw refusal(number, "earlier-round");
}

/** Say that a round is refused, and why. */
export function refusal(number: number, why: string): MurmurationError {
  return new MurmurationError("mismatch", `round ${number}: ${TOLD[why]}. Nothing was sent.`, why);
}
