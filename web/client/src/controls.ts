/** One native control for each question. Nothing is chosen beforehand: a default would be an answer. */

import { read } from "./answers.js";
import { make } from "./dom.js";
import type { Speaker, Texts } from "./texts.js";
import type { Question, Raw } from "./types.js";

/** A question on the page. */
export interface Control {
  readonly root: HTMLElement;
  /** What the person has said; null is "no answer", undefined is nothing yet. */
  value(): Raw;
  /** Show what is wrong, or that nothing is, and say whether it may be sent. */
  check(): boolean;
  focus(): void;
}

/** Lists up to so long are buttons, and up to so long a menu; longer ones are searched. */
const BUTTONS = 6;
const MENU = 200;
const SHOWN = 50;
const NONE = "none";

export function control(question: Question, name: string, speaker: Speaker): Control {
  const { labels } = question;
  if (!labels.length) return number(question, name, speaker);
  const offers = labels.map((label, place): Offer => [String(place), label]);
  if (question.missing) offers.push([NONE, speaker.say("noAnswer")]);
  const value = (key: string): Raw => (key === NONE ? null : labels[Number(key)]);
  if (labels.length <= BUTTONS) return buttons(question.name, offers, name, speaker, value);
  if (labels.length <= MENU) return menu(question.name, offers, name, speaker, value);
  return search(question, name, speaker);
}

type Offer = readonly [key: string, text: string];

/** One of a few: radio buttons. */
export function buttons(
  title: string,
  offers: readonly Offer[],
  name: string,
  speaker: Speaker,
  value: (key: string) => Raw,
): Control {
  const inputs = offers.map(([key]) => make("input", { type: "radio", name, value: key }));
  const rows = offers.map(([, text], place) =>
    make("label", { part: "option" }, inputs[place]!, make("span", { dir: "auto" }, text)),
  );
  const legend = make("legend", { dir: "auto" }, title);
  const root = make("fieldset", { part: "question", role: "radiogroup" }, legend, ...rows);
  const chosen = () => inputs.find((input) => input.checked);
  const given = () => (chosen() ? value(chosen()!.value) : undefined);
  const problem = (): Problem => (chosen() ? "" : "missingAnswer");
  return checked(root, root, () => (chosen() ?? inputs[0]!).focus(), given, problem, name, speaker);
}

/** One of more: a menu. */
function menu(
  title: string,
  offers: readonly Offer[],
  name: string,
  speaker: Speaker,
  value: (key: string) => Raw,
): Control {
  const options = offers.map(([key, text]) => make("option", { value: key }, text));
  const first = make("option", { value: "" }, speaker.say("choose"));
  const select = make("select", { id: name }, first, ...options);
  const root = make("div", { part: "question" }, titled(title, name), select);
  const given = () => (select.value ? value(select.value) : undefined);
  const problem = (): Problem => (select.value ? "" : "missingAnswer");
  return checked(root, select, () => select.focus(), given, problem, name, speaker);
}

/** One of very many: typed, with those that fit below it. */
function search(question: Question, name: string, speaker: Speaker): Control {
  const { labels } = question;
  const list = make("datalist", { id: `${name}-list` });
  const input = make("input", { id: name, list: list.id, autocomplete: "off" });
  const hint = hinted(name, speaker.say("search", { count: labels.length }));
  const folded = labels.map(fold);
  input.addEventListener("input", () => {
    const typed = fold(input.value);
    const fitting = labels.filter((_, place) => folded[place]!.includes(typed)).slice(0, SHOWN);
    list.replaceChildren(...fitting.map((label) => make("option", { value: label })));
  });
  const label = () => {
    const exact = labels.indexOf(input.value);
    return labels[exact < 0 ? folded.indexOf(fold(input.value)) : exact];
  };
  const root = make("div", { part: "question" }, titled(question.name, name), input, list, hint);
  const none = silence(question, input, root, speaker);
  const given = () => (none() ? null : label());
  const problem = (): Problem => {
    if (none() || label() !== undefined) return "";
    return input.value ? "notListed" : "missingAnswer";
  };
  return checked(root, input, () => input.focus(), given, problem, name, speaker);
}

function fold(text: string): string {
  return text.trim().toLowerCase();
}

/** A number in the range: what would be changed before it is sent is not what a person has chosen. */
function number(question: Question, name: string, speaker: Speaker): Control {
  const { low, high, unit } = question;
  const range = speaker.say(unit ? "rangeUnit" : "range", { low, high, unit });
  const input = make("input", {
    ...{ id: name, type: "number", step: "any", inputmode: low < 0 ? undefined : "decimal" },
    ...{ min: String(low), max: String(high), autocomplete: "off" },
  });
  const field = make("span", { part: "field" }, input, make("span", { dir: "auto" }, unit));
  const hint = hinted(name, `${range}.`);
  const root = make("div", { part: "question" }, titled(question.name, name), field, hint);
  const none = silence(question, input, root, speaker);
  const given = () => (none() ? null : input.value || undefined);
  const problem = (): Problem => {
    if (none()) return "";
    if (!input.value) return input.validity.badInput ? "noNumber" : "missingAnswer";
    if (typeof read(question, input.value) !== "number") return "noNumber"; // it is a marker
    return Number(input.value) < low || Number(input.value) > high ? "outOfRange" : "";
  };
  return checked(root, input, () => input.focus(), given, problem, name, speaker);
}

/** "No answer", where that is one: a box that takes the place of the field. */
function silence(
  question: Question,
  input: HTMLInputElement,
  root: HTMLElement,
  speaker: Speaker,
): () => boolean {
  if (!question.missing) return () => false;
  const box = make("input", { type: "checkbox" });
  box.addEventListener("change", () => (input.disabled = box.checked));
  root.append(make("label", { part: "option" }, box, make("span", {}, speaker.say("noAnswer"))));
  return () => box.checked;
}

type Problem = keyof Texts | "";

/** Put the message about a control beneath it, for eyes and for screen readers. */
function checked(
  root: HTMLElement,
  described: HTMLElement,
  focus: () => void,
  value: () => Raw,
  problem: () => Problem,
  name: string,
  speaker: Speaker,
): Control {
  const message = make("p", { id: `${name}-problem`, part: "problem", hidden: true });
  root.append(message);
  const hint = root.querySelector(`#${name}-hint`) ? `${name}-hint ` : "";
  described.setAttribute("aria-describedby", `${hint}${message.id}`);
  const check = () => {
    const found = problem();
    message.textContent = found && speaker.say(found);
    message.hidden = !found;
    described.setAttribute("aria-invalid", String(Boolean(found)));
    return !found;
  };
  root.addEventListener("input", () => message.hidden || check()); // not when it is left: things would move
  return { root, value, check, focus };
}

function titled(title: string, name: string): HTMLElement {
  return make("label", { for: name, dir: "auto", part: "title" }, title);
}

function hinted(name: string, text: string): HTMLElement {
  return make("p", { id: `${name}-hint`, part: "hint" }, text);
}
