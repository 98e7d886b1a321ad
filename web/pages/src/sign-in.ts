/** Signing in: a link with a one-time code opens a session. This page says how, and why it did not. */

import { ask, frame, make } from "./page.js";
import { saying } from "./say.js";
import { SIGN_IN } from "./texts.js";

const say = saying(SIGN_IN);
const asked = new URLSearchParams(location.search);

const status = make("p", { role: asked.has("code") ? "alert" : "status" });
if (asked.has("code")) status.textContent = say("refused");
else if (asked.has("out")) status.textContent = say("out");

const code = make("input", {
  name: "code",
  autocomplete: "off",
  spellcheck: "false",
  required: true,
});
const label = make("label", {}, say("code"), code);
const form = make(
  "form",
  { action: "sign-in", method: "get" },
  label,
  make("button", {}, say("go")),
);
const open = make("div");

frame(
  say("title"),
  [],
  make("h1", {}, say("title")),
  status,
  make(
    "section",
    { class: "panel" },
    make("p", {}, say("first")),
    make("p", { class: "hint" }, say("again")),
    form,
  ),
  open,
);
// The code is worth nothing any more, and a history has no use for it.
if (location.search) history.replaceState(null, "", location.pathname);
void campaigns();

async function campaigns(): Promise<void> {
  const found = await ask<{ campaigns: readonly { campaign: string }[] }>("v1/campaigns").catch(
    () => null,
  );
  if (!found?.campaigns.length) return;
  const links = found.campaigns
    .slice(0, 50)
    .map(({ campaign }) =>
      make(
        "li",
        {},
        make("a", { href: `c/${encodeURIComponent(campaign)}`, dir: "auto" }, campaign),
      ),
    );
  open.replaceChildren(
    make("p", {}, say("participant")),
    make("p", {}, say("campaigns")),
    make("ul", {}, ...links),
  );
}
