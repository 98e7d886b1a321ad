/** How the element looks. Pages change it by custom properties (`--murmur-...`) and by `::part`.
 *
 * A constructed style sheet is no inline style: a strict content security policy lets it through.
 * Light or dark is what the person prefers; `color-scheme` on the element decides otherwise.
 */

const CSS = `
:host {
  --text: var(--murmur-text, light-dark(#1c1f23, #e9ebee));
  --muted: var(--murmur-muted, light-dark(#555c66, #a9b1bc));
  --paper: var(--murmur-background, light-dark(#ffffff, #16191d));
  --line: var(--murmur-border, light-dark(#8a929c, #6d7681));
  --accent: var(--murmur-accent, light-dark(#0b57b0, #8fc1ff));
  --on-accent: var(--murmur-on-accent, light-dark(#ffffff, #0a1a2e));
  --wrong: var(--murmur-error, light-dark(#b3261e, #ff9d94));
  --round: var(--murmur-radius, 0.5rem);
  color-scheme: light dark;
  display: block;
  max-width: var(--murmur-width, 40rem);
  color: var(--text);
  background: var(--paper);
  border: 1px solid var(--line);
  border-radius: var(--round);
  font: var(--murmur-font, 1rem/1.5 system-ui, sans-serif);
  overflow-wrap: anywhere;
}
:host([hidden]) { display: none; }
*, ::before, ::after { box-sizing: border-box; }
section { padding: clamp(0.75rem, 4vw, 1.5rem); }
section > :first-child, form > :first-child, details > :nth-child(2) { margin-block-start: 0; }
section > :last-child { margin-block-end: 0; }
h2 { font-size: 1.25em; line-height: 1.3; margin-block: 0 0.5rem; }
h3 { font-size: 1.1em; line-height: 1.3; margin-block: 0 0.75rem; }
p { margin-block: 0 0.75rem; }
[part~=hint], [part~=note] { color: var(--muted); font-size: 0.9em; margin-block: 0.25rem 0; }
[part~=question] { border: 0; padding: 0; margin: 0 0 1.25rem; min-inline-size: 0; }
[part~=title], legend { display: block; font-weight: 600; padding: 0; margin-block-end: 0.35rem; }
[part~=option] { display: flex; gap: 0.6rem; align-items: start; padding-block: 0.3rem; cursor: pointer; }
[part~=option] input { flex: none; inline-size: 1.15em; block-size: 1.15em; margin: 0.2em 0 0; }
[part~=field] { display: flex; gap: 0.5rem; align-items: center; }
input, select, button { font: inherit; color: inherit; accent-color: var(--accent); }
input:not([type=radio], [type=checkbox]), select {
  inline-size: 100%;
  min-inline-size: 0;
  min-block-size: 2.75rem;
  padding: 0.4rem 0.6rem;
  color: var(--text);
  background: var(--paper);
  border: 1px solid var(--line);
  border-radius: var(--round);
}
input[type=number] { max-inline-size: 12rem; }
[aria-invalid=true]:is(input, select) { border-color: var(--wrong); }
[part~=problem], [role=alert] { color: var(--wrong); font-weight: 600; margin-block: 0.35rem 0; }
[role=alert]:empty, [role=status]:empty { margin: 0; }
[role=alert]:not(:empty) { margin-block: 0 0.75rem; }
button {
  min-block-size: 2.75rem;
  padding: 0.4rem 1.5rem;
  font-weight: 600;
  color: var(--on-accent);
  background: var(--accent);
  border: 1px solid transparent;
  border-radius: var(--round);
  cursor: pointer;
}
button:disabled { opacity: 0.6; cursor: default; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
h3:focus { outline: none; }
details { border-block-start: 1px solid var(--line); padding-block: 0.5rem; }
form details { margin-block-end: 1rem; border-block-end: 1px solid var(--line); }
[part~=spent] { margin-block-start: 1rem; }
[part~=spent] details { padding-block-end: 0; }
summary { padding-block: 0.35rem; font-weight: 600; cursor: pointer; }
ul { margin-block: 0 0.75rem; padding-inline-start: 1.25rem; }
li p { margin-block: 0.15rem; }
pre {
  margin-block: 0 0.5rem;
  padding: 0.6rem;
  max-block-size: 12rem;
  overflow: auto;
  white-space: pre-wrap;
  font: 0.85em/1.45 ui-monospace, monospace;
  border: 1px solid var(--line);
  border-radius: var(--round);
}
`;

let sheet: CSSStyleSheet | undefined;

/** One sheet for all elements of a page. */
export function style(): CSSStyleSheet {
  if (!sheet) {
    sheet = new CSSStyleSheet();
    sheet.replaceSync(CSS);
  }
  return sheet;
}
