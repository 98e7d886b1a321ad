/** What an operator's pages share: who is signed in, the ways between them, and the way out. */

import { ask, type Content, make } from "./page.js";
import { saying } from "./say.js";
import { OPERATOR } from "./texts.js";

const say = saying(OPERATOR);

/** Who is signed in: the type of `server/live.py`. */
export interface Session {
  readonly name: string;
  readonly role: string;
  readonly campaigns: readonly string[];
  readonly expires: number;
}

/** Return the session; without one, sign in first. */
export async function session(): Promise<Session> {
  return ask<Session>("v1/session");
}

/** The links of the header; `here` is the page that they are on. */
export function links(here: "dashboard" | "planner", found: Session): Content[] {
  const to = (page: "dashboard" | "planner", href: string) =>
    make("a", { href, "aria-current": page === here ? "page" : undefined }, say(page));
  const out = make("button", { type: "button", class: "plain" }, say("signOut"));
  out.addEventListener("click", () => void signOut());
  const who = make("span", { class: "hint" }, say("signedInAs", { role: found.role }));
  return [to("dashboard", "./"), to("planner", "plan"), who, out];
}

async function signOut(): Promise<void> {
  await fetch("sign-out", { method: "POST", redirect: "manual" });
  location.assign("sign-in?out");
}
