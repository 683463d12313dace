// The views: an overview, a section at a time, all tables, what to mind.

const off = new Set(); // algorithms that the reader has switched off, in every view

function switchOff(name, hide) {
  if (hide) off.add(name);
  else off.delete(name);
}

function styleOf(name) {
  return DATA.algorithms[name];
}

function legend(names, redraw, hover) {
  const list = element("ul", { class: "legend", "aria-label": "Algorithms shown" });
  const draw = () =>
    list.replaceChildren(
      ...names.map((name) => element("li", {}, toggle(name))),
      element(
        "li",
        {},
        button("all", () => set(false), { class: "all" }),
      ),
      element(
        "li",
        {},
        button("none", () => set(true), { class: "all" }),
      ),
    );
  const set = (hide) => {
    for (const name of names) switchOff(name, hide);
    draw();
    redraw();
  };
  const toggle = (name) => {
    const style = styleOf(name);
    const one = element(
      "button",
      {
        type: "button",
        "aria-pressed": String(!off.has(name)),
        title: style.title,
        "data-algorithm": name,
        onmouseenter: () => hover(off.has(name) ? null : name),
        onmouseleave: () => hover(null),
        onclick: () => {
          switchOff(name, !off.has(name));
          one.setAttribute("aria-pressed", String(!off.has(name)));
          hover(null);
          redraw();
        },
      },
      swatch(style),
      element("span", {}, style.title),
    );
    return one;
  };
  draw();
  return list;
}

const NOTES = {
  curves: "median over runs; band: its bootstrap deviation",
  stairs: "higher is better",
  points: "final values; bars: deviation",
  sweep: "all else fixed; bars: deviation",
  path: "the first seed of each",
};

// A card for one chart, or several that differ in their vertical axes alone.
function chartCard(charts, shown) {
  const [first] = charts;
  const quantities = charts.flatMap((chart) => chart.y.map((axis) => ({ chart, axis })));
  const curves = first.kind === "curves";
  const state = {
    quantity: quantities[0],
    x: first.x[0],
    xLog: first.x[0].log,
    yLog: quantities[0].axis.log,
  };
  const plot = new Chart(curves ? 390 : 340);
  const draw = (keepZoom) => plot.show(choice(state), keepZoom);
  const kinds = [
    ["linear", "linear"],
    ["log", "log"],
  ];
  const kind = (log) => (log ? "log" : "linear");
  const yScale = segmented("Vertical axis", kinds, kind(state.yLog), (name) => {
    state.yLog = name === "log";
    draw(false);
  });
  const xScale = segmented("Horizontal scale", kinds, kind(state.xLog), (name) => {
    state.xLog = name === "log";
    draw(false);
  });
  const quantity =
    quantities.length < 2
      ? null
      : element(
          "select",
          {
            "aria-label": "Quantity",
            onchange: (event) => {
              state.quantity = quantities[event.target.selectedIndex];
              if (state.quantity.axis.log !== state.yLog)
                yScale.querySelector(`[value=${kind(state.quantity.axis.log)}]`).click();
              draw(false);
            },
          },
          ...quantities.map(({ axis }) => element("option", { value: axis.key }, axis.label)),
        );
  const axis =
    first.x.length < 2
      ? null
      : segmented(
          "Horizontal axis",
          first.x.map((one) => [one.key, one.key === "seconds" ? "time" : one.key]),
          state.x.key,
          (name) => {
            state.x = first.x.find((one) => one.key === name);
            if (state.x.log !== state.xLog)
              xScale.querySelector(`[value=${kind(state.x.log)}]`).click();
            draw(false);
          },
        );
  const scales = curves
    ? [
        element("span", { class: "named" }, "x", xScale),
        element("span", { class: "named" }, "y", yScale),
      ]
    : [];
  shown.push({ plot, redraw: () => draw(true) });
  draw(false);
  return card(
    first.card,
    NOTES[first.kind],
    element("div", { class: "tools" }, quantity, axis, ...scales, plot.tools()),
    plot.root,
  );
}

function choice({ quantity: { chart, axis }, x, xLog, yLog }) {
  const series = chart.series
    .filter((one) => !off.has(one.algorithm) && one.y[axis.key])
    .map((one) => ({
      algorithm: one.algorithm,
      title: one.title ?? styleOf(one.algorithm).title,
      style: one.style ?? styleOf(one.algorithm),
      opacity: one.opacity,
      muted: one.muted,
      marks: one.marks,
      x: one.x[x.key],
      y: one.y[axis.key],
      e: one.error[axis.key],
    }));
  return {
    name: `${chart.name}-${axis.key}`,
    title: chart.title,
    kind: chart.kind,
    x,
    y: axis,
    series,
    background: chart.background,
    xKind: xLog ? "log" : "linear",
    yKind: yLog ? "log" : "linear",
  };
}

function chartCards(charts, shown) {
  const cards = Map.groupBy(charts, (chart) => chart.card);
  const wide = [...cards.values()].filter(
    ([chart]) => chart.kind === "curves" && chart.card === charts[0].card,
  );
  const narrow = [...cards.values()].filter((group) => !wide.includes(group));
  return [
    ...wide.map((group) => chartCard(group, shown)),
    ...(narrow.length
      ? [element("div", { class: "pair" }, ...narrow.map((group) => chartCard(group, shown)))]
      : []),
  ];
}

function sectionView(section) {
  const shown = [];
  const names = section.groups.map((group) => group.algorithm);
  const cards = chartCards(section.charts, shown);
  const runs = section.groups.reduce((sum, group) => sum + group.runs, 0);
  const diverged = section.groups.reduce((sum, group) => sum + group.diverged, 0);
  return [
    element(
      "div",
      {},
      element("h1", {}, section.title),
      element(
        "p",
        { class: "lead" },
        `${counted(runs, "run")} of ${counted(names.length, "algorithm")}${diverged ? `, ${diverged} of which diverged; those count with their last finite values` : ""}.`,
      ),
    ),
    ...section.caveats.map((text) =>
      element("p", { class: "notice" }, `Not the paper's protocol: ${text}.`),
    ),
    element(
      "div",
      {},
      legend(
        names,
        () => shown.forEach((one) => one.redraw()),
        (name) => shown.forEach((one) => one.plot.highlight(name)),
      ),
      element("p", { class: "hint" }, KEYS),
    ),
    ...cards,
    card("Final statistics", "click a heading to sort", dataTable(section.table)),
    card(
      "Behind each curve",
      "the setting, and the command that does its runs again",
      ...section.groups.map(groupDetails),
    ),
  ];
}

function groupDetails(group) {
  const pre = element("pre", {}, element("code", {}, group.command));
  const values = Object.entries(group.setting).flatMap(([name, value]) => [
    element("dt", {}, words(name)),
    element("dd", {}, formatNumber(value, 6)),
  ]);
  const ends = `${counted(group.runs, "run")}${group.diverged ? `, ${group.diverged} diverged` : ""}${group.unfinished ? `; ${group.unfinished} more have not ended and are left out` : ""}`;
  return element(
    "details",
    {},
    element(
      "summary",
      {},
      swatch(styleOf(group.algorithm)),
      element("span", {}, styleOf(group.algorithm).title),
      element("span", { class: "muted" }, ends),
    ),
    element(
      "dl",
      {},
      ...values,
      element("dt", {}, "seeds"),
      element("dd", {}, group.seeds.join(", ")),
    ),
    pre,
    button("Copy command", () => copy(pre, group.command)),
  );
}

function rankingCard() {
  const { ranks, contests, records, reference, referenceTitle, one } = DATA.ranking;
  const body = element("tbody");
  const show = (against) =>
    body.replaceChildren(
      ...ranks.map((rank, i) => {
        const ran = rank.scores.filter((score) => score !== null);
        const cells = [
          `${i + 1}`,
          [
            swatch(styleOf(rank.algorithm)),
            element(
              "span",
              { class: rank.best ? "winner" : null },
              `${rank.best ? "★ " : ""}${styleOf(rank.algorithm).title}`,
            ),
          ],
          rank.text,
          strip(rank, one),
          `${ran.filter((score) => score.best).length}`,
          rank.algorithm === against ? "–" : records[against][rank.algorithm].join(" / "),
          `${ran.length} of ${contests.length}`,
        ];
        return element(
          "tr",
          {},
          ...cells.map((cell) =>
            element("td", { class: typeof cell === "string" ? "number" : null }, ...[cell].flat()),
          ),
        );
      }),
    );
  const pick = element(
    "select",
    { "aria-label": "Reference", onchange: (event) => show(event.target.value) },
    ...ranks.map(({ algorithm }) =>
      element(
        "option",
        { value: algorithm, selected: algorithm === reference },
        styleOf(algorithm).title,
      ),
    ),
  );
  show(reference);
  const header = [
    "",
    "method",
    "loss ratio (95 % interval)",
    "",
    "best in",
    "wins / ties / losses",
    "compared",
  ];
  return card(
    "Who wins",
    `final test loss over ${referenceTitle}'s, ${counted(contests.length, "comparison")}; left is better`,
    element("div", { class: "tools" }, element("label", {}, "Wins, ties and losses against", pick)),
    scrolled(
      "Ranking",
      element(
        "table",
        { class: "data ranking" },
        element(
          "thead",
          {},
          element("tr", {}, ...header.map((text) => element("th", { scope: "col" }, text))),
        ),
        body,
      ),
    ),
    element(
      "p",
      { class: "hint" },
      "★: the first, or not to be told from it. Geometric means; intervals of bootstrap samples over comparisons and runs.",
    ),
  );
}

function strip({ interval, algorithm }, one) {
  const [low, middle, high, line] = [...interval, one].map((share) => 112 * share);
  const colour = styleOf(algorithm).colour;
  return shape(
    "svg",
    { width: 112, height: 18, viewBox: "0 0 112 18", "aria-hidden": "true" },
    shape("line", { class: "one", x1: line, x2: line, y1: 0, y2: 18 }),
    shape("line", {
      x1: low,
      x2: high,
      y1: 9,
      y2: 9,
      stroke: colour,
      "stroke-width": 3,
      "stroke-opacity": 0.55,
    }),
    shape("circle", { cx: middle, cy: 9, r: 4.5, fill: colour }),
  );
}

function heatCard() {
  const { ranks, contests, referenceTitle } = DATA.ranking;
  const tasks = [...Map.groupBy(contests, (contest) => contest.task)];
  const top = element(
    "tr",
    {},
    element("th", { scope: "col", rowspan: 2 }, "method"),
    ...tasks.map(([task, own]) => element("th", { scope: "colgroup", colspan: own.length }, task)),
  );
  const below = element(
    "tr",
    {},
    ...contests.map((contest) =>
      element(
        "th",
        { scope: "col" },
        element("a", { href: `#${contest.section}` }, contest.detail),
      ),
    ),
  );
  const rows = ranks.map((rank) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, styleOf(rank.algorithm).title),
      ...rank.scores.map((score, i) => {
        if (score === null) return element("td", { class: "none" }, "–");
        const cell = element(
          "td",
          {
            class: `${score.shade < 0 ? "less" : "more"}${score.best ? " best" : ""}`,
            title: `${styleOf(rank.algorithm).title}, ${contests[i].task}, ${contests[i].detail}: test loss ${score.loss}`,
          },
          score.best ? `★ ${score.text}` : score.text,
        );
        cell.style.setProperty("--shade", `${Math.round(70 * Math.abs(score.shade))}%`);
        return cell;
      }),
    ),
  );
  return card(
    "Method by task and batch",
    `final test loss over ${referenceTitle}'s; below 1 is better`,
    scrolled(
      "Method by task and batch",
      element(
        "table",
        { class: "heat" },
        element("thead", {}, top, below),
        element("tbody", {}, ...rows),
      ),
    ),
    element(
      "p",
      { class: "hint" },
      "★: the least of its column, or not to be told from it. A batch leads to its curves.",
    ),
  );
}

function overviewChart(chart) {
  const shown = [];
  const made = chartCard([chart], shown);
  const [{ plot, redraw }] = shown;
  made.querySelector(".tools").before(
    legend(
      chart.series.map((one) => one.algorithm),
      redraw,
      (name) => plot.highlight(name),
    ),
  );
  made.append(element("p", { class: "hint" }, KEYS));
  return made;
}

function reproductionCard() {
  const counts = DATA.verdicts;
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const table = DATA.tables.find((one) => one.name === "reproduction");
  const bar = element(
    "div",
    { class: "bar", "aria-hidden": "true" },
    ...Object.entries(counts).map(([word, count]) => {
      const part = element("span", { class: word });
      part.style.width = `${(100 * count) / total}%`;
      return part;
    }),
  );
  const text = element(
    "p",
    {},
    ...Object.entries(counts).flatMap(([word, count]) => [
      element("span", { class: `word ${word}` }, `${count} ${word}`),
      " ",
    ]),
  );
  const mark = (cell, i) =>
    i === table.header.indexOf("verdict") ? element("span", { class: `word ${cell}` }, cell) : cell;
  return card(
    "Beside the paper",
    `${total} numbers that both have`,
    text,
    bar,
    element("p", { class: "hint" }, table.note),
    dataTable(table, mark),
  );
}

function overview() {
  const { counts, dates, warnings } = DATA;
  const facts = element(
    "dl",
    { class: "facts" },
    ...Object.entries(counts)
      .filter(([name, count]) => count || name === "runs" || name === "diverged")
      .map(([name, count]) =>
        element(
          "div",
          {},
          element("dt", {}, name === "runs" ? "complete runs" : name),
          element("dd", {}, count.toLocaleString("en-GB")),
        ),
      ),
  );
  const days = [...new Set(dates.map((date) => date.slice(0, 10)).filter(Boolean))].join(" to ");
  return [
    element(
      "div",
      {},
      element("h1", {}, "Overview"),
      element(
        "p",
        { class: "lead" },
        "Optimisers that choose their own learning rate, beside those that must be told. " +
          `Medians over runs, with errors from 50 bootstrap samples.${days ? ` Runs of ${days}.` : ""}`,
      ),
    ),
    ...(warnings.length
      ? [
          element(
            "p",
            { class: "notice" },
            element("a", { href: "#mind" }, counted(warnings.length, "thing")),
            " to mind.",
          ),
        ]
      : []),
    ...(DATA.ranking ? [rankingCard(), heatCard()] : []),
    ...DATA.charts.map(overviewChart),
    ...(Object.values(DATA.verdicts).some(Boolean) ? [reproductionCard()] : []),
    facts,
  ];
}

function tablesView() {
  return [
    element(
      "div",
      {},
      element("h1", {}, "All tables"),
      element(
        "p",
        { class: "lead" },
        "The same as in the folder tables/ beside this page, as Markdown, LaTeX and CSV.",
      ),
    ),
    ...DATA.tables.map((table) =>
      card(
        table.title,
        "",
        ...(table.rows.length ? [dataTable(table)] : []),
        element("p", { class: "hint" }, table.note),
        table.missing.length
          ? element(
              "ul",
              { class: "missing" },
              ...table.missing.map((text) => element("li", {}, `Not in this store: ${text}`)),
            )
          : null,
      ),
    ),
  ];
}

function warningsView() {
  return [
    element(
      "div",
      {},
      element("h1", {}, "What to mind"),
      element(
        "p",
        { class: "lead" },
        "Runs that could not be read, have not ended, or were planned and are absent.",
      ),
    ),
    card(
      counted(DATA.warnings.length, "entry").replace("entrys", "entries"),
      "",
      DATA.warnings.length
        ? element(
            "ul",
            { class: "missing" },
            ...DATA.warnings.map((text) => element("li", {}, text)),
          )
        : element("p", {}, "Nothing."),
    ),
  ];
}
