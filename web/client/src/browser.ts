/** The one file that collectors serve: the library, and the element where there is a page. */

export * from "./index.js";
export * from "./define.js";
