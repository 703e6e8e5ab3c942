// A chart of two series over a span of time, by default the last two minutes, drawn as SVG. A
// library would be ten times the size of the needed parts: two lines, four lines of a grid, and the
// newest numbers.

import { h, s, say } from "./dom.js";
import { duration } from "./format.js";

const WIDTH = 480;
const HEIGHT = 130;
const LEFT = 76;
const BOTTOM = 18;
const TOP = 8;
const SPAN_MS = 120000;

/** The next number of 1, 2, 2.5 and 5 times a power of ten. */
export function ceiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= value);
}

export class Chart {
  /** names: names of the two series; show: formats a value; max: a fixed top, if there is one. */
  constructor({ title, names, show, max = null, step }) {
    Object.assign(this, { show, max, step, names });
    this.ticks = [0, 1, 2].map(() => s("text", { class: "tick", x: LEFT - 6, "text-anchor": "end" }));
    this.grid = [0, 1, 2].map(() => s("line", { class: "grid", x1: LEFT, x2: WIDTH }));
    this.area = s("path", { class: "a0" });
    this.lines = names.map((_, index) => s("path", { class: `s${index}` }));
    this.keys = names.map((_, index) => h("span", { class: `key k${index}` }));
    this.svg = s("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" },
      this.grid, this.area, this.lines, this.ticks,
      (this.since = s("text", { class: "tick", x: LEFT, y: HEIGHT - 4 })),
      s("text", { class: "tick", x: WIDTH, y: HEIGHT - 4, "text-anchor": "end" }, "now"));
    this.title = title;
    this.element = h("section", { class: "card" }, h("div", { class: "head" }, h("h2", {}, title), h("span", { class: "grow" }), this.keys), this.svg);
    // The view box follows the available width, so that text is not stretched.
    new ResizeObserver(([entry]) => this.resize(entry.contentRect.width)).observe(this.svg);
    this.width = WIDTH;
  }

  resize(width) {
    if (!width || Math.abs(width - this.width) < 1) return;
    this.width = width;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.grid.forEach((line) => line.setAttribute("x2", width));
    this.svg.lastChild.setAttribute("x", width);
    if (this.last) this.update(this.last, this.spanMs);
  }

  /** points: {at, values: [a, b]}, oldest first; a value may be null. spanMs: the span of time. */
  update(points, spanMs = SPAN_MS) {
    this.last = points;
    this.spanMs = spanMs;
    const all = points.flatMap((point) => point.values).filter((value) => value !== null);
    const top = this.max ?? ceiling(Math.max(...all, this.step ?? 1));
    const now = points.at(-1)?.at ?? 0;
    // The points of at most the span take the whole width.
    const span = Math.min(spanMs, Math.max(20000, now - (points[0]?.at ?? now)));
    const since = duration(Math.round(span / 1000)).replace(/ 0 (s|min|h)$/, "");
    say(this.since, `${since} ago`);
    const x = (at) => LEFT + (this.width - LEFT) * (1 - (now - at) / span);
    const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
    [0, 0.5, 1].forEach((part, index) => {
      const at = y(top * part).toFixed(1);
      this.grid[index].setAttribute("y1", at);
      this.grid[index].setAttribute("y2", at);
      this.ticks[index].setAttribute("y", Number(at) + 3.5);
      say(this.ticks[index], this.show(top * part));
    });
    this.names.forEach((name, series) => {
      let path = "";
      let isDown = false;
      const shown = points.filter((point) => now - point.at <= span);
      for (const point of shown) {
        const value = point.values[series];
        if (value === null) {
          isDown = false;
          continue;
        }
        path += `${isDown ? "L" : "M"}${x(point.at).toFixed(1)} ${y(value).toFixed(1)}`;
        isDown = true;
      }
      this.lines[series].setAttribute("d", path);
      if (series === 0) {
        const isWhole = shown.length > 1 && !path.slice(1).includes("M");
        const close = isWhole ? `L${x(now).toFixed(1)} ${y(0)}L${x(shown[0].at).toFixed(1)} ${y(0)}Z` : "";
        this.area.setAttribute("d", close ? path + close : "");
      }
      const latest = points.at(-1)?.values[series] ?? null;
      say(this.keys[series], `${name} ${latest === null ? "–" : this.show(latest)}`);
    });
    this.svg.setAttribute("aria-label", `${this.title} over ${since}, now ${this.keys.map((key) => key.textContent).join(", ")}`);
  }
}
