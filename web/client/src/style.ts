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
* { box-sizing: border-box; }
section { padding: clamp(0.75rem, 4vw, 1.5rem); }
h2, h3, p, ul, pre { margin: 0 0 0.75rem; }
h2, h3 { font-size: 1.2em; line-height: 1.3; }
h3:focus { outline: none; }
[part~=hint], [part~=note] { color: var(--muted); font-size: 0.9em; margin: 0.25rem 0 0; }
[part~=question] { border: 0; padding: 0; margin: 0 0 1.25rem; min-width: 0; }
[part~=title], legend { display: block; font-weight: 600; padding: 0; margin: 0 0 0.35rem; }
[part~=option], [part~=field] { display: flex; gap: 0.6rem; padding: 0.3rem 0; }
[part~=field] { align-items: center; padding: 0; }
input, select, button { font: inherit; color: inherit; accent-color: var(--accent); }
input { flex: none; width: 1.15em; height: 1.15em; margin: 0.2em 0 0; }
input:not([type=radio], [type=checkbox]), select, button, pre {
  min-height: 2.75rem;
  padding: 0.4rem 0.6rem;
  background: var(--paper);
  border: 1px solid var(--line);
  border-radius: var(--round);
}
input:not([type=radio], [type=checkbox]), select { flex: auto; width: 100%; margin: 0; }
input[type=number] { max-width: 12rem; }
[aria-invalid=true]:is(input, select) { border-color: var(--wrong); }
[part~=problem], [role=alert] { color: var(--wrong); font-weight: 600; margin: 0.35rem 0 0; }
[role]:empty { margin: 0; }
button {
  padding: 0.4rem 1.5rem;
  font-weight: 600;
  color: var(--on-accent);
  background: var(--accent);
}
button:disabled { opacity: 0.6; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
details { border-top: 1px solid var(--line); padding: 0.5rem 0; margin: 1rem 0 0; }
summary { padding: 0.35rem 0; font-weight: 600; cursor: pointer; }
ul { padding-inline-start: 1.25rem; }
li p { margin: 0.15rem 0; }
pre { max-height: 12rem; overflow: auto; white-space: pre-wrap; font: 0.85em/1.45 ui-monospace, monospace; }
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
