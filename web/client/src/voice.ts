/** How things are said in one language: a table of texts, whose blanks are filled in, and numbers. */

/** A bound is said to be no less than it is, but for so much of itself: a round number stays one. */
const NEAR = 1e-12;
/** Beyond this e^loss is as good as infinite. */
const MOST_EXPONENT = 700;

export type Values = Readonly<Record<string, string | number>>;

export class Voice<Table extends Readonly<Record<string, string>>> {
  readonly #language: string[];
  readonly #formats = new Map<string, Intl.NumberFormat>();

  constructor(
    private readonly table: Table,
    language = "",
  ) {
    this.#language = known(language);
  }

  /** Return a text with its blanks filled in, once: what is filled in is not looked at again. */
  say(key: keyof Table, values: Values = {}): string {
    return this.table[key]!.replace(/\{(\w+)\}/g, (blank, name: string) => {
      const value = values[name];
      return typeof value === "number" ? this.number(value) : (value ?? blank);
    });
  }

  number(value: number): string {
    return this.#written(value, { maximumSignificantDigits: 15 });
  }

  /** A limit, a number that was drawn: to three digits. */
  rough(value: number, digits = 3): string {
    if (value === Infinity) return this.table["noLimit"] ?? "∞";
    return this.#written(value, { maximumSignificantDigits: digits });
  }

  /** A cost or a loss: never said to be less than it is. */
  above(value: number, digits = 3): string {
    const options = { maximumSignificantDigits: digits, roundingMode: "ceil" } as const;
    return value === Infinity ? "∞" : this.#written(value * (1 - NEAR), options);
  }

  percent(chance: number, digits = 2): string {
    return this.#written(chance, { style: "percent", maximumSignificantDigits: digits });
  }

  /** Return e^loss, rounded up. */
  times(loss: number): string {
    return loss > MOST_EXPONENT ? "∞" : this.above(Math.exp(loss));
  }

  /** Return how sure of one of two answers anybody can be who thought both equally likely: rounded
   * up, with as many digits as it takes to stay below 100%. */
  certainty(loss: number): string {
    const doubt = 100 / (1 + Math.exp(loss) * (1 - NEAR));
    const digits = Math.max(1, -Math.floor(Math.log10(doubt)));
    const share = 1 - Math.floor(doubt * 10 ** digits) / 10 ** (digits + 2);
    return this.#written(share, { style: "percent", maximumFractionDigits: digits });
  }

  #written(value: number, options: Intl.NumberFormatOptions): string {
    const key = JSON.stringify(options);
    const format = this.#formats.get(key) ?? new Intl.NumberFormat(this.#language, options);
    this.#formats.set(key, format);
    return format.format(value);
  }
}

/** The language, or English where it is none. */
function known(language: string): string[] {
  try {
    return Intl.getCanonicalLocales(language);
  } catch {
    return ["en"];
  }
}
