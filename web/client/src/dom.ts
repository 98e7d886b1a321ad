/** Nodes of a page. Text is always text: nothing that a campaign says is read as HTML. */

type Attributes = Readonly<Record<string, string | boolean | undefined>>;

/** Make an element with attributes (true is an empty one, false and undefined are none). */
export function make<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

/** A part that people open to read it. */
export function folded(title: string, ...children: (Node | string)[]): HTMLDetailsElement {
  return make("details", {}, make("summary", {}, title), ...children);
}
