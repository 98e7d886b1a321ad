/** The address of a campaign, and which addresses may be spoken to in plain HTTP.
 *
 * Only this machine itself: what stays on it can be read by nobody else.
 */

import { MurmurationError } from "./errors.js";

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;
/** An IPv4 address as IPv6 has it, as browsers write it. */
const MAPPED = /^\[::ffff:([0-9a-f]+):([0-9a-f]+)\]$/;
const PLAIN = /^[\x21-\x7e]+$/;

/** Where a campaign is collected, such as https://collector.example/v1/campaigns/phones. */
export interface Address {
  readonly url: string;
  /** Whose collector it is: small letters, always with the port. */
  readonly origin: string;
  /** The campaign's name: the last part of the path. */
  readonly name: string;
}

/** Return the host of an origin: one for all its ports, for all spellings of an IP address (browsers
 * write all but the mapped ones alike), and for all names of this machine. */
export function hostOf(origin: string): string {
  const hostname = new URL(origin).hostname
    .replace(/\.$/, "")
    .replace(MAPPED, (_, high: string, low: string) =>
      [high, low]
        .map((half) => parseInt(half, 16))
        .map((half) => `${half >> 8}.${half & 255}`)
        .join("."),
    );
  return LOOPBACK.test(hostname) ? "localhost" : hostname;
}

/** Read an address; refuse one whose traffic others could read, unless it is allowed. */
export function address(text: string, allowPlainHttp = false): Address {
  const url = PLAIN.test(text) && URL.canParse(text) ? new URL(text) : undefined;
  const secure = url?.protocol === "https:";
  const extra = url && (url.username || url.password || /[?#]/.test(text));
  if (!url || extra || !(secure || url.protocol === "http:")) {
    throw new MurmurationError(
      "parameter",
      "an address is that of a campaign: https://HOST/v1/campaigns/NAME, without a user, a " +
        "query or a fragment",
    );
  }
  if (!secure && !allowPlainHttp && hostOf(text) !== "localhost") {
    throw new MurmurationError(
      "parameter",
      `${url.hostname} is another machine and this is plain HTTP: reports and tokens could be ` +
        "read on the way. Use https://, or allow it: allowPlainHttp.",
    );
  }
  const path = url.pathname.replace(/\/+$/, "");
  return {
    url: url.origin + path,
    origin: `${url.protocol}//${url.hostname}:${url.port || (secure ? 443 : 80)}`,
    name: path.slice(path.lastIndexOf("/") + 1),
  };
}
