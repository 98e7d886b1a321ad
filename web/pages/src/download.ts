/** Charts as files: SVG as it is drawn, and PNG drawn from that. */

import { draw, save } from "./page.js";

const PROPERTIES = [
  "fill",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "font-size",
  "font-family",
];
const GAP = 16;
/** Pixels of a PNG for each unit of a drawing. */
const SHARP = 3;

/** Put charts under one another, under a title, as one drawing that needs no style sheet. */
export function gathered(
  title: string,
  notes: readonly string[],
  charts: readonly SVGElement[],
  place: HTMLElement,
): SVGElement {
  const style = getComputedStyle(place);
  const parts = charts.map((chart) => standalone(chart));
  const sizes = charts.map((chart) => (chart as SVGSVGElement).viewBox.baseVal);
  const width = Math.max(360, ...sizes.map((size) => size.width)) + 2 * GAP;
  const font = { "font-family": style.fontFamily, fill: style.color, x: GAP };
  let y = 34;
  const words = [draw("text", { ...font, y, "font-size": 17, "font-weight": 600 }, title)];
  for (const note of notes)
    words.push(draw("text", { ...font, y: (y += 18), "font-size": 12 }, note));
  y += GAP;
  for (const [at, part] of parts.entries()) {
    for (const [name, value] of Object.entries({
      x: GAP,
      y,
      width: sizes[at]!.width,
      height: sizes[at]!.height,
    })) {
      part.setAttribute(name, String(value));
    }
    y += sizes[at]!.height + GAP;
  }
  const ground = draw("rect", { width: "100%", height: "100%", fill: style.backgroundColor });
  return draw(
    "svg",
    { width, height: y, viewBox: `0 0 ${width} ${y}` },
    ground,
    ...words,
    ...parts,
  );
}

/** A copy that says itself how it looks. */
function standalone(chart: SVGElement): SVGElement {
  const copy = chart.cloneNode(true) as SVGElement;
  const [all, own] = [
    [chart, ...chart.querySelectorAll("*")],
    [copy, ...copy.querySelectorAll("*")],
  ];
  for (const [place, part] of all.entries()) {
    const style = getComputedStyle(part);
    for (const name of PROPERTIES) {
      const value = style.getPropertyValue(name);
      if (value) own[place]!.setAttribute(name, value);
    }
    own[place]!.removeAttribute("class");
  }
  return copy;
}

export function saveSvg(name: string, drawing: SVGElement): void {
  save(`${name}.svg`, new Blob([written(drawing)], { type: "image/svg+xml" }));
}

export async function savePng(name: string, drawing: SVGElement): Promise<void> {
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(written(drawing))}`;
  await picture.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [picture.width * SHARP, picture.height * SHARP];
  canvas.getContext("2d")!.drawImage(picture, 0, 0, canvas.width, canvas.height);
  canvas.toBlob((found) => found && save(`${name}.png`, found), "image/png");
}

function written(drawing: SVGElement): string {
  return new XMLSerializer().serializeToString(drawing);
}
