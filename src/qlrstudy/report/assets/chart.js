// A plot: medians with bands or points with error bars, zoom, cursor, keyboard.

const MARGIN = { left: 66, right: 14, top: 12, bottom: 44 };
const KEYS =
  "Drag to zoom, double-click to reset. With the keyboard: arrows move the cursor, + and − zoom, 0 resets.";

class Chart {
  // spec: {name, title, kind, x, y, xKind, yKind, series, background}, where x and y are axes as Python made them
  // series: [{algorithm, title, style, opacity, muted, marks, x, y, e}], all arrays of one length
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
    return element(
      "span",
      { class: "choice", role: "group", "aria-label": "Zoom and data" },
      button("+", () => this.zoomBy(0.5), { "aria-label": "Zoom in", title: "Zoom in" }),
      button("−", () => this.zoomBy(2), { "aria-label": "Zoom out", title: "Zoom out" }),
      button("Reset", () => this.zoomTo(null), { "aria-label": "Reset zoom", title: "Reset zoom" }),
      button("CSV", () => download(`${this.spec.name}.csv`, this.table()), {
        "aria-label": "Download the data of this plot",
        title: "Download the data of this plot",
      }),
    );
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
      group.classList.toggle("loud", group.dataset.algorithm === algorithm);
    }
  }

  table() {
    const { spec } = this;
    const rows = [["algorithm", spec.x.label, spec.y.label, "error"]];
    for (const one of spec.series) {
      one.x.forEach((x, i) => rows.push([one.title, x, one.y[i], one.e?.[i] ?? null]));
    }
    return commaSeparated(rows);
  }

  // What an axis shows: as Python chose, or as a reader zoomed.
  view(axis, kind, zoom, count) {
    return zoom ? { ends: zoom, ticks: ticks(kind, zoom, count) } : axis.views[kind];
  }

  get pointed() {
    return this.spec.kind === "points" || this.spec.kind === "sweep";
  }

  draw() {
    const width = this.plot.clientWidth;
    if (!this.spec || !width) return;
    const { spec, zoom } = this;
    const x = this.view(spec.x, spec.xKind, zoom?.x, 8);
    const y = this.view(spec.y, spec.yKind, zoom?.y, 6);
    if (!x || !y || !spec.series.length) {
      this.plot.replaceChildren(
        element(
          "p",
          { class: "muted" },
          spec.series.length ? "Nothing to draw on these axes." : "No algorithm is switched on.",
        ),
      );
      return;
    }
    const [right, bottom] = [width - MARGIN.right, this.height - MARGIN.bottom];
    this.x = makeScale(spec.xKind, x.ends, [MARGIN.left, right]);
    this.y = makeScale(spec.yKind, y.ends, [bottom, MARGIN.top]);
    const clip = `clip-${spec.name}`;
    const behind = spec.background.map(([xs, ys]) =>
      shape("path", {
        class: "behind",
        d: this.line(xs.map((x, i) => ({ x: this.x(x), y: this.y(ys[i]) }))),
      }),
    );
    const area = shape(
      "g",
      { "clip-path": `url(#${clip})` },
      ...behind,
      ...spec.series.map((one) => this.drawSeries(one)).reverse(),
    );
    const cuts = spec.series.flatMap((one) => this.drawCuts(one, MARGIN.top, bottom));
    this.cursor = shape("line", {
      class: "cursor",
      y1: MARGIN.top,
      y2: bottom,
      visibility: "hidden",
    });
    this.box = shape("rect", { class: "box", visibility: "hidden" });
    this.svg = shape(
      "svg",
      {
        viewBox: `0 0 ${width} ${this.height}`,
        height: this.height,
        tabindex: 0,
        role: "application",
        "aria-roledescription": "plot",
        "aria-label": `${spec.title}: ${spec.y.label} against ${spec.x.label}. ${KEYS}`,
      },
      shape(
        "defs",
        {},
        shape(
          "clipPath",
          { id: clip },
          shape("rect", {
            x: MARGIN.left,
            y: MARGIN.top,
            width: right - MARGIN.left,
            height: bottom - MARGIN.top,
          }),
        ),
      ),
      ...this.drawAxes(width, x.ticks, y.ticks),
      area,
      ...cuts,
      this.cursor,
      this.box,
    );
    this.listen();
    const focused = this.plot.contains(document.activeElement);
    this.plot.replaceChildren(this.svg, this.tip);
    if (focused) this.svg.focus({ preventScroll: true });
    this.highlight(this.loud);
  }

  drawAxes(width, xTicks, yTicks) {
    const [right, bottom, parts] = [width - MARGIN.right, this.height - MARGIN.bottom, []];
    for (const [value, text] of withRoom(xTicks, right - MARGIN.left)) {
      const at = this.x(value);
      parts.push(shape("line", { class: "grid", x1: at, x2: at, y1: MARGIN.top, y2: bottom }));
      parts.push(shape("text", { x: at, y: bottom + 17, "text-anchor": "middle" }, text));
    }
    for (const [value, text] of yTicks) {
      const at = this.y(value);
      parts.push(shape("line", { class: "grid", x1: MARGIN.left, x2: right, y1: at, y2: at }));
      parts.push(shape("text", { x: MARGIN.left - 8, y: at + 4, "text-anchor": "end" }, text));
    }
    parts.push(
      shape("line", { class: "axis", x1: MARGIN.left, x2: right, y1: bottom, y2: bottom }),
    );
    parts.push(
      shape(
        "text",
        {
          class: "label",
          x: (MARGIN.left + right) / 2,
          y: this.height - 8,
          "text-anchor": "middle",
        },
        this.spec.x.label,
      ),
    );
    const middle = (MARGIN.top + bottom) / 2;
    parts.push(
      shape(
        "text",
        {
          class: "label",
          x: 14,
          y: middle,
          "text-anchor": "middle",
          transform: `rotate(-90 14 ${middle})`,
        },
        this.spec.y.label,
      ),
    );
    return parts;
  }

  drawSeries(one) {
    const group = shape("g", {
      class: one.muted ? "series muted" : "series",
      "data-algorithm": one.algorithm,
    });
    group.style.setProperty("--own", one.style.colour);
    const spots = this.spots(one);
    const colour = "currentColor"; // of the group: its own, or grey while it is muted
    if (this.spec.kind === "curves") {
      const band = this.band(spots);
      if (band)
        group.append(shape("path", { class: "band", d: band, fill: colour, "fill-opacity": 0.16 }));
    }
    if (this.spec.kind !== "points") {
      group.append(
        shape("path", {
          class: "curve",
          d: this.line(spots),
          stroke: colour,
          "stroke-dasharray": one.style.dash.join(" ") || null,
          "stroke-opacity": one.opacity ?? null,
        }),
      );
    }
    const marks = new Set(one.marks);
    for (const spot of this.pointed ? spots : spots.filter((spot) => marks.has(spot.place))) {
      if (this.pointed && spot.e) {
        const [low, high] = [
          this.pixel(this.y, spot.value - spot.e, spot.value),
          this.pixel(this.y, spot.value + spot.e, spot.value),
        ];
        group.append(
          shape("line", {
            x1: spot.x,
            x2: spot.x,
            y1: low,
            y2: high,
            stroke: colour,
            "stroke-width": 1.5,
          }),
        );
      }
      group.append(
        marker(
          { ...one.style, colour },
          spot.x,
          spot.y,
          this.pointed ? 5.5 : 3.6,
          one.opacity ?? null,
        ),
      );
    }
    return group;
  }

  // Triangles at the edge wherever a series leaves the plot.
  drawCuts(one, top, bottom) {
    const [low, high] = this.x.range;
    const spots = this.spots(one).filter((spot) => spot.x >= low - 0.5 && spot.x <= high + 0.5);
    const side = (spot) =>
      spot === undefined ? 0 : spot.y < top - 0.5 ? 1 : spot.y > bottom + 0.5 ? -1 : 0;
    return spots
      .filter((spot, i) => side(spot) && side(spot) !== side(spots[i - 1]))
      .map((spot) =>
        shape(
          "path",
          {
            class: "cut",
            fill: one.style.colour,
            d: `M${spot.x.toFixed(1)},${(side(spot) > 0 ? top : bottom) - 7 * side(spot)}l4.5,${7 * side(spot)}h-9Z`,
          },
          shape("title", {}, `${one.title} goes on beyond the plot`),
        ),
      );
  }

  spots(one) {
    const spots = [];
    one.x.forEach((x, i) => {
      const y = one.y[i];
      if (x === null || y === null || (this.spec.xKind === "log" && x <= 0)) return;
      spots.push({
        x: this.x(x),
        y: this.pixel(this.y, y, this.y.domain[0]),
        value: y,
        e: one.e?.[i] ?? 0,
        place: i,
      });
    });
    return spots;
  }

  line(spots) {
    const corner = (spot, i) =>
      this.spec.kind === "stairs" && i
        ? `H${spot.x.toFixed(1)}V${spot.y.toFixed(1)}`
        : `${i ? "L" : "M"}${spot.x.toFixed(1)},${spot.y.toFixed(1)}`;
    return spots.map(corner).join("");
  }

  band(spots) {
    if (!spots.some((spot) => spot.e > 0)) return null;
    const edge = (spot, sign) =>
      `${spot.x.toFixed(1)},${this.pixel(this.y, spot.value + sign * spot.e, spot.value).toFixed(1)}`;
    return `M${spots.map((spot) => edge(spot, 1)).join("L")}L${[...spots]
      .reverse()
      .map((spot) => edge(spot, -1))
      .join("L")}Z`;
  }

  pixel(scale, value, middle) {
    // Below zero a logarithm has no place: far below the median is low enough, or, if that
    // has none either, below the axis.
    const low = (middle > 0 ? middle : scale.domain[0]) / 1e3;
    const far = scale.kind === "log" && value <= 0 ? low : value;
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
      if (begin && Math.abs(begin.x - end.x) > 6 && Math.abs(begin.y - end.y) > 6)
        this.zoomTo(this.between(begin, end));
    });
    this.svg.addEventListener("pointercancel", () => {
      start = null;
    });
    this.svg.addEventListener("pointerleave", () => {
      if (!start) this.hideCursor();
    });
    this.svg.addEventListener("dblclick", () => this.zoomTo(null));
    this.svg.addEventListener("blur", () => this.hideCursor());
    this.svg.addEventListener("keydown", (event) => this.press(event));
  }

  press(event) {
    const width = this.plot.clientWidth - MARGIN.right - MARGIN.left;
    const moves = { ArrowLeft: -width / 40, ArrowRight: width / 40 };
    if (event.key in moves) {
      const from = this.at ?? (event.key === "ArrowRight" ? MARGIN.left : MARGIN.left + width);
      this.moveCursor(
        Math.min(MARGIN.left + width, Math.max(MARGIN.left, from + moves[event.key])),
        MARGIN.top + 20,
        true,
      );
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
    say(
      zoom
        ? `Zoomed: ${this.spec.x.label} from ${formatNumber(zoom.x[0], 3)} to ${formatNumber(zoom.x[1], 3)}.`
        : "Zoom reset.",
    );
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
    const box = {
      x: Math.min(a.x, b.x),
      y: Math.min(a.y, b.y),
      width: Math.abs(a.x - b.x),
      height: Math.abs(a.y - b.y),
      visibility: "visible",
    };
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
    const single = this.spec.kind === "points" || this.spec.kind === "path";
    const near = single ? this.nearPoints(x, y) : this.nearCurves(x);
    if (!near.length) return this.hideCursor();
    if (!single) fill(this.cursor, { x1: x, x2: x, visibility: "visible" }, []);
    const heading = single
      ? near[0].heading
      : `${this.spec.x.label} ${formatNumber(this.x.invert(x), 3)}`;
    const rows = near.map((one) =>
      element(
        "tr",
        {},
        element("td", {}, swatch(one.style)),
        element("td", {}, one.title),
        element("td", {}, formatEstimate(one.value, one.error)),
      ),
    );
    this.tip.replaceChildren(element("p", {}, heading), element("table", {}, ...rows));
    this.tip.hidden = false;
    const left =
      x < this.plot.clientWidth / 2 ? x + 16 : Math.max(4, x - this.tip.offsetWidth - 16);
    this.tip.style.left = `${left}px`;
    this.tip.style.top = `${Math.max(0, Math.min(y - 20, this.height - this.tip.offsetHeight - 4))}px`;
    if (aloud)
      say(
        `${heading}: ${near
          .slice(0, 6)
          .map((one) => `${one.title} ${formatNumber(one.value, 3)}`)
          .join(", ")}`,
      );
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
        if (away < 24)
          near.push({
            away,
            style: one.style,
            title: one.title,
            heading: `${this.spec.x.label} ${formatNumber(value, 3)}`,
            value: one.y[i],
            error: one.e?.[i],
          });
      });
    }
    return near.sort((a, b) => a.away - b.away).slice(0, 6);
  }
}

// Every mark, or every second or third, so that their texts stay apart.
function withRoom(marks, width) {
  const widest = Math.max(0, ...marks.map(([, text]) => text.length)) * 7.5 + 12;
  const step = Math.max(1, Math.ceil((marks.length * widest) / width));
  return marks.filter((_, i) => i % step === 0);
}

function nearest(values, wanted) {
  let best = null;
  values.forEach((value, i) => {
    if (
      value !== null &&
      (best === null || Math.abs(value - wanted) < Math.abs(values[best] - wanted))
    )
      best = i;
  });
  return best;
}
