// A plot: medians with bands or points with error bars, zoom, cursor, keyboard.

const MARGIN = { left: 66, right: 14, top: 12, bottom: 44 };
const KEYS = "Drag to zoom, double-click to reset. With the keyboard: arrows move the cursor, + and − zoom, 0 resets.";

class Chart {
  // spec: {name, title, xLabel, yLabel, xKind, yKind, points, stairs, capped, xTicks, series}
  // series: [{algorithm, title, style, x, y, e, labels}], all arrays of one length
  constructor(height) {
    this.height = height;
    this.zoom = null;
    this.loud = null;
    this.plot = element("div", { class: "plot" });
    this.tip = element("div", { class: "tip", hidden: true });
    this.root = this.plot;
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.plot);
  }

  tools() {
    return element("span", { class: "choice", role: "group", "aria-label": "Zoom and data" },
      button("+", () => this.zoomBy(0.5), { "aria-label": "Zoom in", title: "Zoom in" }), button("−", () => this.zoomBy(2), { "aria-label": "Zoom out", title: "Zoom out" }),
      button("Reset", () => this.zoomTo(null), { "aria-label": "Reset zoom", title: "Reset zoom" }),
      button("CSV", () => download(`${this.spec.name}.csv`, this.table()), { "aria-label": "Download the data of this plot", title: "Download the data of this plot" }));
  }

  show(spec, keepZoom = false) {
    this.spec = spec;
    if (!keepZoom) this.zoom = null;
    this.hideCursor();
    this.draw();
  }

  highlight(algorithm) {
    this.loud = algorithm;
    for (const group of this.plot.querySelectorAll("g.series")) {
      group.classList.toggle("dim", algorithm !== null && group.dataset.algorithm !== algorithm);
    }
  }

  table() {
    const { spec } = this;
    const rows = [["algorithm", "label", spec.xLabel, spec.yLabel, "error"]];
    for (const one of spec.series) {
      one.x.forEach((x, i) => rows.push([one.title, one.labels?.[i] ?? "", x, one.y[i], one.e?.[i] ?? null]));
    }
    return commaSeparated(rows);
  }

  domains() {
    const { spec } = this;
    const fits = (kind, value) => value !== null && (kind !== "log" || value > 0);
    const xs = spec.series.flatMap((one) => one.x.filter((x, i) => fits(spec.xKind, x) && fits(spec.yKind, one.y[i])));
    const ends = (y, e) => (spec.points && e ? [y, y - e, y + e] : [y]);
    const ys = spec.series.flatMap((one) => one.y.flatMap((y, i) => (y !== null && fits(spec.xKind, one.x[i]) ? ends(y, one.e?.[i]) : []))).filter((y) => fits(spec.yKind, y));
    let [x, y] = [extent(xs), extent(ys)];
    if (!x || !y) return null;
    if (spec.capped) y = [y[0], Math.min(y[1], Math.max(this.cap(), y[0]))];
    const room = spec.points ? 0.07 : 0.04;
    return { x: spec.points || spec.xKind === "log" ? padded(spec.xKind, x, spec.stairs ? 0 : room) : [x[0], x[1] || 1], y: padded(spec.yKind, y, room) };
  }

  cap() {
    // A run that diverged must not crush the others: it leaves the plot at the top.
    const known = this.spec.series.map((one) => one.y.filter((value) => value !== null)).filter((y) => y.length);
    const ends = known.map((y) => y.at(-1)).sort((a, b) => a - b);
    return Math.max(...known.map((y) => y[0]), 10 * ends[Math.floor(ends.length / 2)]);
  }

  draw() {
    const width = this.plot.clientWidth;
    if (!this.spec || !width) return;
    const domains = this.zoom ?? this.domains();
    if (!domains) {
      this.plot.replaceChildren(element("p", { class: "muted" }, this.spec.series.length ? "Nothing to draw on these axes." : "No algorithm is switched on."));
      return;
    }
    const [right, bottom] = [width - MARGIN.right, this.height - MARGIN.bottom];
    this.x = makeScale(this.spec.xKind, domains.x, [MARGIN.left, right]);
    this.y = makeScale(this.spec.yKind, domains.y, [bottom, MARGIN.top]);
    const clip = `clip-${this.spec.name}`;
    const area = shape("g", { "clip-path": `url(#${clip})` }, ...this.spec.series.map((one) => this.drawSeries(one)));
    this.cursor = shape("line", { class: "cursor", y1: MARGIN.top, y2: bottom, visibility: "hidden" });
    this.box = shape("rect", { class: "box", visibility: "hidden" });
    this.svg = shape("svg", { viewBox: `0 0 ${width} ${this.height}`, height: this.height, tabindex: 0, role: "application",
      "aria-roledescription": "plot", "aria-label": `${this.spec.title}: ${this.spec.yLabel} against ${this.spec.xLabel}. ${KEYS}` },
      shape("defs", {}, shape("clipPath", { id: clip }, shape("rect", { x: MARGIN.left, y: MARGIN.top, width: right - MARGIN.left, height: bottom - MARGIN.top }))),
      ...this.drawAxes(width), area, this.cursor, this.box);
    this.listen();
    const focused = this.plot.contains(document.activeElement);
    this.plot.replaceChildren(this.svg, this.tip);
    if (focused) this.svg.focus({ preventScroll: true });
    this.highlight(this.loud);
  }

  drawAxes(width) {
    const [right, bottom, parts] = [width - MARGIN.right, this.height - MARGIN.bottom, []];
    const xMarks = this.spec.xTicks && !this.zoom ? this.spec.xTicks : ticks(this.spec.xKind, this.x.domain, Math.max(3, Math.floor(width / 110)));
    for (const mark of xMarks) {
      const at = this.x(mark.value);
      parts.push(shape("line", { class: "grid", x1: at, x2: at, y1: MARGIN.top, y2: bottom }));
      parts.push(shape("text", { x: at, y: bottom + 17, "text-anchor": "middle" }, mark.text));
    }
    const yMarks = this.spec.yTicks ?? ticks(this.spec.yKind, this.y.domain, 6);
    for (const mark of yMarks) {
      const at = this.y(mark.value);
      parts.push(shape("line", { class: "grid", x1: MARGIN.left, x2: right, y1: at, y2: at }));
      parts.push(shape("text", { x: MARGIN.left - 8, y: at + 4, "text-anchor": "end" }, mark.text));
    }
    for (const { value, text } of this.spec.rows ?? []) {
      parts.push(shape("text", { class: "label", x: MARGIN.left + 4, y: this.y(value) - 12 }, text));
    }
    parts.push(shape("line", { class: "axis", x1: MARGIN.left, x2: right, y1: bottom, y2: bottom }));
    parts.push(shape("text", { class: "label", x: (MARGIN.left + right) / 2, y: this.height - 8, "text-anchor": "middle" }, this.spec.xLabel));
    const middle = (MARGIN.top + bottom) / 2;
    parts.push(shape("text", { class: "label", x: 14, y: middle, "text-anchor": "middle", transform: `rotate(-90 14 ${middle})` }, this.spec.yLabel));
    return parts;
  }

  drawSeries(one) {
    const group = shape("g", { class: "series", "data-algorithm": one.algorithm });
    const spots = this.spots(one);
    const colour = one.style.colour;
    if (!this.spec.points) {
      const band = this.band(spots);
      if (band) group.append(shape("path", { class: "band", d: band, fill: colour, "fill-opacity": 0.16 }));
    }
    if (!this.spec.points || this.spec.joined) {
      group.append(shape("path", { class: "curve", d: this.line(spots), stroke: colour, "stroke-dasharray": one.style.dash.join(" ") || null, "stroke-opacity": one.opacity ?? null }));
    }
    const every = this.spec.points ? 1 : Math.max(1, Math.floor(spots.length / 6));
    const marks = spots.filter((_, i) => i % every === 0 || i === spots.length - 1);
    for (const spot of marks) {
      if (this.spec.points && spot.e) {
        const [low, high] = [this.pixel(this.y, spot.value - spot.e, spot.value), this.pixel(this.y, spot.value + spot.e, spot.value)];
        group.append(shape("line", { x1: spot.x, x2: spot.x, y1: low, y2: high, stroke: colour, "stroke-width": 1.5 }));
      }
      group.append(shape("path", { class: "mark", d: MARKERS[one.style.marker](this.spec.points ? 5.5 : 3.6), transform: `translate(${spot.x.toFixed(1)} ${spot.y.toFixed(1)})`, fill: colour, "fill-opacity": one.opacity ?? null }));
    }
    return group;
  }

  spots(one) {
    const spots = [];
    one.x.forEach((x, i) => {
      const y = one.y[i];
      if (x === null || y === null || (this.spec.xKind === "log" && x <= 0) || (this.spec.yKind === "log" && y <= 0)) return;
      spots.push({ x: this.x(x), y: this.y(y), value: y, e: one.e?.[i] ?? 0 });
    });
    return spots;
  }

  line(spots) {
    const corner = (spot, i) => (this.spec.stairs && i ? `H${spot.x.toFixed(1)}V${spot.y.toFixed(1)}` : `${i ? "L" : "M"}${spot.x.toFixed(1)},${spot.y.toFixed(1)}`);
    return spots.map(corner).join("");
  }

  band(spots) {
    if (!spots.some((spot) => spot.e > 0)) return null;
    const edge = (spot, sign) => `${spot.x.toFixed(1)},${this.pixel(this.y, spot.value + sign * spot.e, spot.value).toFixed(1)}`;
    return `M${spots.map((spot) => edge(spot, 1)).join("L")}L${[...spots].reverse().map((spot) => edge(spot, -1)).join("L")}Z`;
  }

  pixel(scale, value, middle) {
    // Below zero a logarithm has no place: far below the median is low enough.
    const far = scale.kind === "log" && value <= 0 ? middle / 1e3 : value;
    return Math.max(-1e5, Math.min(1e5, scale(far)));
  }

  listen() {
    const place = (event) => {
      const box = this.svg.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    };
    let start = null;
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      start = place(event);
      this.svg.setPointerCapture(event.pointerId);
    });
    this.svg.addEventListener("pointermove", (event) => {
      const now = place(event);
      if (start) this.drawBox(start, now);
      else this.moveCursor(now.x, now.y);
    });
    this.svg.addEventListener("pointerup", (event) => {
      const [begin, end] = [start, place(event)];
      start = null;
      this.box.setAttribute("visibility", "hidden");
      if (begin && Math.abs(begin.x - end.x) > 6 && Math.abs(begin.y - end.y) > 6) this.zoomTo(this.between(begin, end));
    });
    this.svg.addEventListener("pointercancel", () => { start = null; });
    this.svg.addEventListener("pointerleave", () => { if (!start) this.hideCursor(); });
    this.svg.addEventListener("dblclick", () => this.zoomTo(null));
    this.svg.addEventListener("blur", () => this.hideCursor());
    this.svg.addEventListener("keydown", (event) => this.press(event));
  }

  press(event) {
    const width = this.plot.clientWidth - MARGIN.right - MARGIN.left;
    const moves = { ArrowLeft: -width / 40, ArrowRight: width / 40 };
    if (event.key in moves) {
      const from = this.at ?? (event.key === "ArrowRight" ? MARGIN.left : MARGIN.left + width);
      this.moveCursor(Math.min(MARGIN.left + width, Math.max(MARGIN.left, from + moves[event.key])), MARGIN.top + 20, true);
    } else if (event.key === "+" || event.key === "=") this.zoomBy(0.5);
    else if (event.key === "-") this.zoomBy(2);
    else if (event.key === "0" || event.key === "Escape") this.zoomTo(null);
    else return;
    event.preventDefault();
  }

  between(a, b) {
    const sorted = (one, two) => (one < two ? [one, two] : [two, one]);
    const inside = (value, low, high) => Math.min(high, Math.max(low, value));
    const [right, bottom] = [this.plot.clientWidth - MARGIN.right, this.height - MARGIN.bottom];
    const xs = [a.x, b.x].map((x) => this.x.invert(inside(x, MARGIN.left, right)));
    const ys = [a.y, b.y].map((y) => this.y.invert(inside(y, MARGIN.top, bottom)));
    return { x: sorted(...xs), y: sorted(...ys) };
  }

  zoomTo(zoom) {
    this.zoom = zoom;
    this.hideCursor();
    this.draw();
    say(zoom ? `Zoomed: ${this.spec.xLabel} from ${formatNumber(zoom.x[0], 3)} to ${formatNumber(zoom.x[1], 3)}.` : "Zoom reset.");
  }

  zoomBy(factor) {
    if (!this.x) return;
    const around = (scale) => {
      const [low, high] = scale.kind === "log" ? scale.domain.map(Math.log10) : scale.domain;
      const [middle, half] = [(low + high) / 2, ((high - low) / 2) * factor];
      const domain = [middle - half, middle + half];
      return scale.kind === "log" ? domain.map((value) => 10 ** value) : domain;
    };
    this.zoomTo({ x: around(this.x), y: around(this.y) });
  }

  drawBox(a, b) {
    const box = { x: Math.min(a.x, b.x), y: Math.min(a.y, b.y), width: Math.abs(a.x - b.x), height: Math.abs(a.y - b.y), visibility: "visible" };
    fill(this.box, box, []);
    this.hideCursor();
  }

  hideCursor() {
    this.at = null;
    this.tip.hidden = true;
    this.cursor?.setAttribute("visibility", "hidden");
  }

  moveCursor(x, y, aloud = false) {
    const right = this.plot.clientWidth - MARGIN.right;
    if (x < MARGIN.left || x > right) return this.hideCursor();
    this.at = x;
    const near = this.spec.points && !this.spec.joined ? this.nearPoints(x, y) : this.nearCurves(x);
    if (!near.length) return this.hideCursor();
    if (!this.spec.points || this.spec.joined) fill(this.cursor, { x1: x, x2: x, visibility: "visible" }, []);
    const heading = this.spec.points && !this.spec.joined ? near[0].heading : `${this.spec.xLabel} ${formatNumber(this.x.invert(x), 3)}`;
    const rows = near.map((one) => element("tr", {}, element("td", {}, swatch(one.style)), element("td", {}, one.title), element("td", {}, formatEstimate(one.value, one.error))));
    this.tip.replaceChildren(element("p", {}, heading), element("table", {}, ...rows));
    this.tip.hidden = false;
    const left = x < this.plot.clientWidth / 2 ? x + 16 : Math.max(4, x - this.tip.offsetWidth - 16);
    this.tip.style.left = `${left}px`;
    this.tip.style.top = `${Math.max(0, Math.min(y - 20, this.height - this.tip.offsetHeight - 4))}px`;
    if (aloud) say(`${heading}: ${near.slice(0, 6).map((one) => `${one.title} ${formatNumber(one.value, 3)}`).join(", ")}`);
  }

  nearCurves(pixel) {
    const wanted = this.x.invert(pixel);
    const near = [];
    for (const one of this.spec.series) {
      const place = nearest(one.x, wanted);
      const value = place === null ? null : one.y[place];
      if (value === null || wanted > one.x.at(-1) * 1.02 + 1e-12) continue;
      near.push({ style: one.style, title: one.title, value, error: one.e?.[place] });
    }
    return near.sort((a, b) => a.value - b.value);
  }

  nearPoints(x, y) {
    const near = [];
    for (const one of this.spec.series) {
      one.x.forEach((value, i) => {
        if (value === null || one.y[i] === null) return;
        const away = Math.hypot(this.x(value) - x, this.y(one.y[i]) - y);
        if (away < 24) near.push({ away, style: one.style, title: one.title, heading: one.labels?.[i] ?? `${this.spec.xLabel} ${formatNumber(value)}`,
          value: this.spec.told === "x" ? value : one.y[i], error: this.spec.told === "x" ? null : one.e?.[i] });
      });
    }
    return near.sort((a, b) => a.away - b.away).slice(0, 6);
  }
}

function nearest(values, wanted) {
  let best = null;
  values.forEach((value, i) => {
    if (value !== null && (best === null || Math.abs(value - wanted) < Math.abs(values[best] - wanted))) best = i;
  });
  return best;
}
