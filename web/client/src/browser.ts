/** The one file that collectors serve: the library, the element where there is a page, and what the
 * file of trainings imports from it. */

export * from "./core.js";
export * from "./index.js";
export * from "./define.js";
