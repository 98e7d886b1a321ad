/** Everything that can go wrong, as one class: `kind` says what, the message what to do.
 *
 * Messages repeat what an app gave as a parameter, never a private value or a collector's words:
 * errors end up in logs and on pages.
 */

/**
 * - `parameter`: asked for something that does not exist
 * - `input`: an answer that is missing, or that the campaign has no rule for
 * - `format`: a document that is damaged or not ours
 * - `mismatch`: two things that do not belong together (a pinned digest, a name, a secret)
 * - `promise`: a law that costs more than it promises
 * - `budget`: a report would cost more than the person or the campaign allows (`reason`: which)
 * - `ledger`: the record of what was spent cannot be read or written
 * - `send`: no answer that settles it; what was charged is kept, to be sent again as it is
 */
export type Kind =
  | "parameter"
  | "input"
  | "format"
  | "mismatch"
  | "promise"
  | "budget"
  | "ledger"
  | "send";

export class MurmurationError extends Error {
  override readonly name = "MurmurationError";

  constructor(
    readonly kind: Kind,
    message: string,
    /** For `budget` which limit: report, collector, lifetime, campaign or rounds. For an answer that
     * does not fit: outside or unknown. */
    readonly reason = "",
    /** Of an answer that does not fit: whose. */
    readonly attribute = "",
  ) {
    super(message);
  }
}
