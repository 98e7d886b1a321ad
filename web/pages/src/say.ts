/** How things are said: texts with their blanks filled in, numbers as English writes them. */

export type Table = Readonly<Record<string, string>>;
export type Values = Readonly<Record<string, string | number>>;

/** Return a function that says the texts of a table: blanks are filled in once, and what is filled
 * in is not looked at again. */
export function saying<T extends Table>(table: T): (key: keyof T, values?: Values) => string {
  return (key, values = {}) =>
    table[key]!.replace(/\{(\w+)\}/g, (blank, name: string) => {
      const value = values[name];
      return typeof value === "number" ? whole(value) : (value ?? blank);
    });
}

const LANGUAGE = "en";
const wholes = new Intl.NumberFormat(LANGUAGE, { maximumFractionDigits: 20 });
const roughs = [1, 2, 3, 4, 5, 6].map(
  (digits) => new Intl.NumberFormat(LANGUAGE, { maximumSignificantDigits: digits }),
);
const compacts = new Intl.NumberFormat(LANGUAGE, {
  notation: "compact",
  maximumSignificantDigits: 3,
});

/** A number as it is. */
export function whole(value: number): string {
  return wholes.format(value);
}

/** A number to so many digits. */
export function rough(value: number, digits = 3): string {
  return value === Infinity ? "∞" : roughs[digits - 1]!.format(value);
}

/** A large number, short: 1.2M. */
export function compact(value: number): string {
  return compacts.format(value);
}

/** A number with so many decimals, all of them written: columns of such numbers line up. */
export function fixed(value: number, decimals: number): string {
  return value.toLocaleString(LANGUAGE, {
    minimumFractionDigits: decimals,
    maximumFractionDigits: decimals,
  });
}

/** A share of 1 as a percentage. */
export function percent(share: number, decimals = 1): string {
  return `${fixed(share * 100, decimals)}%`;
}

/** How many decimals a number needs whose error is this: two digits of the error are worth writing. */
export function decimals(error: number): number {
  if (!(error > 0) || !Number.isFinite(error)) return 1;
  return Math.min(8, Math.max(0, 1 - Math.floor(Math.log10(error))));
}
