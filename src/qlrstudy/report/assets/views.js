// The views: an overview, a section at a time, all tables, what is missing.

const AXES = { seconds: "training time (s)", steps: "steps", epochs: "epochs" };
const off = new Set(); // algorithms that the reader has switched off, in every view

function styleOf(name) {
  return DATA.algorithms[name];
}

function legend(names, redraw, hover) {
  const list = element("ul", { class: "legend", "aria-label": "Algorithms shown" });
  const draw = () => list.replaceChildren(...names.map((name) => element("li", {}, toggle(name))),
    element("li", {}, button("all", () => set(false), { class: "all" })), element("li", {}, button("none", () => set(true), { class: "all" })));
  const set = (hide) => {
    for (const name of names) hide ? off.add(name) : off.delete(name);
    draw();
    redraw();
  };
  const toggle = (name) => {
    const style = styleOf(name);
    const one = element("button", { type: "button", "aria-pressed": String(!off.has(name)), title: style.title, "data-algorithm": name,
      onmouseenter: () => hover(off.has(name) ? null : name), onmouseleave: () => hover(null),
      onclick: () => {
        off.has(name) ? off.delete(name) : off.add(name);
        one.setAttribute("aria-pressed", String(!off.has(name)));
        hover(null);
        redraw();
      } }, swatch(style), element("span", {}, style.title));
    return one;
  };
  draw();
  return list;
}

function seriesOf(section, curve, quantity, axis) {
  return section.groups.filter((group) => !off.has(group.algorithm) && group[curve]?.bands[quantity]).map((group) => ({
    algorithm: group.algorithm, title: styleOf(group.algorithm).title, style: styleOf(group.algorithm),
    x: group[curve][axis], y: group[curve].bands[quantity][0], e: group[curve].bands[quantity][1],
  }));
}

function curveCard(section, curve, title, start, charts) {
  const known = new Set(section.groups.flatMap((group) => Object.keys(group[curve]?.bands ?? {})));
  if (!known.size) return null;
  const order = ["test_loss", "training_loss", "validation_loss", "test_accuracy", "training_accuracy", "validation_accuracy", "step_size", "damping"];
  const quantities = order.filter((name) => known.has(name));
  // Times that differ by orders of magnitude share no linear axis.
  const ends = section.groups.map((group) => group[curve]?.seconds.at(-1)).filter((end) => end > 0);
  const apart = Math.max(...ends) / Math.min(...ends) > 8;
  const state = { quantity: quantities.includes(start) ? start : quantities[0], axis: "seconds", xKind: apart ? "log" : "linear", yKind: "log" };
  const chart = new Chart(390);
  const draw = (keepZoom) => chart.show({ name: `${section.id}-${state.quantity}`, title: section.title, xLabel: AXES[state.axis], yLabel: words(state.quantity),
    xKind: state.xKind, yKind: state.yKind, capped: state.quantity.endsWith("loss"), series: seriesOf(section, curve, state.quantity, state.axis) }, keepZoom);
  const pick = element("select", { "aria-label": "Quantity", onchange: (event) => {
    state.quantity = event.target.value;
    const scale = state.quantity.endsWith("accuracy") ? "linear" : "log";
    if (scale !== state.yKind) yScale.querySelector(`[value=${scale}]`).click();
    draw(false);
  } }, ...quantities.map((name) => element("option", { value: name }, words(name))));
  const kinds = [["linear", "linear"], ["log", "log"]];
  const yScale = segmented("Vertical axis", kinds, state.yKind, (kind) => { state.yKind = kind; draw(false); });
  const xScale = segmented("Horizontal scale", kinds, state.xKind, (kind) => { state.xKind = kind; draw(false); });
  const axis = segmented("Horizontal axis", [["seconds", "time"], ["steps", "steps"], ["epochs", "epochs"]], state.axis, (name) => { state.axis = name; draw(false); });
  charts.push({ chart, redraw: () => draw(true) });
  draw(false);
  return card(title, "median over runs; band: its bootstrap deviation", element("div", { class: "tools" },
    pick, axis, element("span", { class: "named" }, "x", xScale), element("span", { class: "named" }, "y", yScale), chart.tools()), chart.root);
}

function sectionView(section) {
  const charts = [];
  const names = section.groups.map((group) => group.algorithm);
  const redraw = () => charts.forEach((one) => one.redraw());
  const hover = (name) => charts.forEach((one) => one.chart.highlight(name));
  const runs = section.groups.reduce((sum, group) => sum + group.runs, 0);
  const diverged = section.groups.reduce((sum, group) => sum + group.diverged, 0);
  return [
    element("div", {}, element("h1", {}, section.title), element("p", { class: "lead" },
      `${counted(runs, "run")} of ${counted(names.length, "algorithm")}${diverged ? `, ${diverged} of which diverged; those count with their last finite values` : ""}.`)),
    ...section.caveats.map((text) => element("p", { class: "notice" }, `Not the paper's protocol: ${text}.`)),
    element("div", {}, legend(names, redraw, hover), element("p", { class: "hint" }, KEYS)),
    curveCard(section, "evaluations", "Loss and accuracy", "test_loss", charts),
    element("div", { class: "pair" }, curveCard(section, "evolution", "Step size and damping", "step_size", charts), costCard(section, charts)),
    card("Final statistics", "click a heading to sort", dataTable(section.table)),
    ...(section.sweeps.length ? [element("div", { class: "pair" }, ...section.sweeps.map((sweep, i) => sweepCard(section, sweep, i)))] : []),
    card("Behind each curve", "the setting, and the command that does its runs again", ...section.groups.map(groupDetails)),
  ].filter((part) => part !== null);
}

function costCard(section, charts) {
  if (section.groups.length < 2) return null;
  const chart = new Chart(390);
  const state = { axis: "training_seconds" };
  const draw = (keepZoom) => chart.show({ name: `${section.id}-cost`, title: "Cost against quality", points: true, xKind: "log", yKind: "log",
    xLabel: state.axis === "step" ? "steps" : "training time (s)", yLabel: "final test loss",
    series: section.groups.filter((group) => !off.has(group.algorithm) && group.finals.test_loss[0] !== null).map((group) => ({
      algorithm: group.algorithm, title: styleOf(group.algorithm).title, style: styleOf(group.algorithm),
      x: [group.finals[state.axis][0]], y: [group.finals.test_loss[0]], e: [group.finals.test_loss[1]], labels: ["final test loss"],
    })) }, keepZoom);
  charts.push({ chart, redraw: () => draw(true) });
  draw(false);
  const axis = segmented("Horizontal axis", [["training_seconds", "time"], ["step", "steps"]], state.axis, (name) => { state.axis = name; draw(false); });
  return card("Cost against quality", "final values; bars: deviation", element("div", { class: "tools" }, axis, chart.tools()), chart.root);
}

function sweepCard(section, sweep, number) {
  const chart = new Chart(300);
  const style = styleOf(sweep.algorithm);
  const shapes = Object.keys(MARKERS);
  const state = { quantity: "test_loss" };
  const spread = extent(sweep.lines.flatMap((line) => line.values));
  const wide = spread[0] > 0 && spread[1] / spread[0] > 3;
  const draw = () => chart.show({ name: `${section.id}-sweep-${number}`, title: `Sensitivity of ${style.title}`, points: true, joined: true, capped: false,
    xKind: wide ? "log" : "linear", yKind: "log", xLabel: sweep.setting, yLabel: `final ${words(state.quantity)}`,
    series: sweep.lines.map((line, i) => ({ algorithm: sweep.algorithm, title: line.label || style.title,
      style: { ...style, marker: shapes[i % shapes.length], dash: [] }, opacity: 1 - (0.65 * i) / sweep.lines.length,
      x: line.values, y: line.finals[state.quantity].map((one) => one[0]), e: line.finals[state.quantity].map((one) => one[1]) })) });
  draw();
  const pick = segmented("Loss", [["test_loss", "test"], ["validation_loss", "validation"], ["training_loss", "training"]], state.quantity, (name) => { state.quantity = name; draw(); });
  return card(`Sensitivity: ${style.title}, ${sweep.setting}`, "all else fixed", element("div", { class: "tools" }, pick, chart.tools()), chart.root);
}

function groupDetails(group) {
  const pre = element("pre", {}, element("code", {}, group.command));
  const values = Object.entries(group.setting).flatMap(([name, value]) => [element("dt", {}, words(name)), element("dd", {}, formatNumber(value, 6))]);
  const ends = `${counted(group.runs, "run")}${group.diverged ? `, ${group.diverged} diverged` : ""}${group.unfinished ? `; ${group.unfinished} more have not ended and are left out` : ""}`;
  return element("details", {}, element("summary", {}, swatch(styleOf(group.algorithm)), element("span", {}, styleOf(group.algorithm).title), element("span", { class: "muted" }, ends)),
    element("dl", {}, ...values, element("dt", {}, "seeds"), element("dd", {}, group.seeds.join(", "))), pre,
    button("Copy command", () => copy(pre, group.command)));
}

function headlineCard() {
  const sections = DATA.sections.filter((section) => section.whole && section.groups.length > 1);
  if (!sections.length) return null;
  const chart = new Chart(Math.max(200, 84 + 56 * sections.length));
  const names = Object.keys(DATA.algorithms).filter((name) => sections.some((section) => lossOf(section, name) !== null));
  const best = sections.map((section) => Math.min(...names.map((name) => lossOf(section, name) ?? Infinity)));
  const draw = (keepZoom) => chart.show({ name: "overview", title: "Final test loss over the best of each task", points: true, told: "x", xKind: "log", yKind: "linear",
    xLabel: "final test loss, over the best of the row (at most 100)", yLabel: "", yTicks: sections.map((_, i) => ({ value: -i, text: "" })),
    rows: sections.map((section, i) => ({ value: -i, text: section.title })), series: names.filter((name) => !off.has(name)).map((name) => {
      const found = sections.map((section, i) => [section, i, lossOf(section, name)]).filter(([, , value]) => value !== null);
      return { algorithm: name, title: styleOf(name).title, style: styleOf(name), x: found.map(([, i, value]) => Math.min(value / best[i], 100)),
        y: found.map(([, i]) => -i), labels: found.map(([section, , value]) => `${section.task}: test loss ${formatNumber(value)}, over the best`) };
    }) }, keepZoom);
  draw(false);
  return card("Final test loss", "each row a task; left is better", legend(names, () => draw(true), (name) => chart.highlight(name)),
    element("div", { class: "tools" }, chart.tools()), chart.root, element("p", { class: "hint" }, KEYS), lossTable(sections, names, best));
}

function lossOf(section, name) {
  return section.groups.find((group) => group.algorithm === name)?.finals.test_loss[0] ?? null;
}

function lossTable(sections, names, best) {
  const rows = names.map((name) => [[styleOf(name).title], ...sections.map((section, i) => {
    const group = section.groups.find((one) => one.algorithm === name);
    if (!group) return ["–", null];
    const [value, error] = group.finals.test_loss;
    return [`${value === best[i] ? "★ " : ""}${formatEstimate(value, error)}`, value];
  })]);
  const header = ["algorithm", ...sections.map((section) => section.title)];
  const csv = commaSeparated([header, ...rows.map((row) => row.map((cell, i) => (i ? cell[1] : cell[0])))]);
  return dataTable({ name: "final-test-loss", title: "Final test loss by task; the best of each is starred", header, rows, csv });
}

function profileCard() {
  const found = DATA.profiles;
  if (!found) return null;
  const chart = new Chart(330);
  const state = { unit: "seconds" };
  const names = Object.keys(found.shares.seconds);
  const marks = [1, 1.5, 2, 3, 4].map((value) => ({ value, text: String(value) }));
  const draw = (keepZoom) => chart.show({ name: `profiles-${state.unit}`, title: "Performance profiles", stairs: true, xKind: "log", yKind: "linear", xTicks: marks,
    xLabel: `${state.unit} to target, over the fastest method's`, yLabel: `share of ${found.cells.length} cells solved`,
    series: names.filter((name) => !off.has(name)).map((name) => ({ algorithm: name, title: styleOf(name).title, style: styleOf(name), x: found.ratios, y: found.shares[state.unit][name] })) }, keepZoom);
  draw(false);
  const unit = segmented("Unit", [["seconds", "time"], ["steps", "steps"]], state.unit, (name) => { state.unit = name; draw(false); });
  return card("Performance profiles against a tuned Adam", `${found.cells.length} cells; higher is better`,
    legend(names, () => draw(true), (name) => chart.highlight(name)), element("div", { class: "tools" }, unit, chart.tools()), chart.root);
}

function reproductionCard() {
  const counts = DATA.verdicts;
  const total = counts.agrees + counts.explained + counts.differs;
  if (!total) return null;
  const table = DATA.tables.find((one) => one.name === "reproduction");
  const bar = element("div", { class: "bar", "aria-hidden": "true" }, ...Object.entries(counts).map(([word, count]) => {
    const part = element("span", { class: word });
    part.style.width = `${(100 * count) / total}%`;
    return part;
  }));
  const text = element("p", {}, ...Object.entries(counts).flatMap(([word, count]) => [element("span", { class: `word ${word}` }, `${count} ${word}`), " "]));
  const mark = (cell, i) => (i === table.header.indexOf("verdict") ? element("span", { class: `word ${cell}` }, cell) : cell);
  return card("Beside the paper", `${total} numbers that both have`, text, bar, element("p", { class: "hint" }, table.note), dataTable(table, mark));
}

function overview() {
  const { counts, dates } = DATA;
  const facts = element("dl", { class: "facts" }, ...Object.entries(counts).filter(([name, count]) => count || name === "runs" || name === "diverged")
    .map(([name, count]) => element("div", {}, element("dt", {}, name === "runs" ? "complete runs" : name), element("dd", {}, count.toLocaleString("en-GB")))));
  const days = [...new Set(dates.map((date) => date.slice(0, 10)).filter(Boolean))].join(" to ");
  return [
    element("div", {}, element("h1", {}, "Overview"), element("p", { class: "lead" }, "Optimisers that choose their own learning rate, beside those that must be told. " +
      `Medians over runs, with errors from 50 bootstrap samples.${days ? ` Runs of ${days}.` : ""}`)),
    facts,
    ...(DATA.missing.length ? [element("p", { class: "notice" }, "This report is not complete: ", element("a", { href: "#missing" }, `${DATA.missing.length} things are missing`), ".")] : []),
    headlineCard(), profileCard(), reproductionCard(),
  ].filter((part) => part !== null);
}

function tablesView() {
  return [element("div", {}, element("h1", {}, "All tables"), element("p", { class: "lead" }, "The same as in the folder tables/ beside this page, as Markdown, LaTeX and CSV.")),
    ...DATA.tables.map((table) => card(table.title, "", ...(table.rows.length ? [dataTable(table)] : []), element("p", { class: "hint" }, table.note),
      table.missing.length ? element("ul", { class: "missing" }, ...table.missing.map((text) => element("li", {}, `Missing: ${text}`))) : null))];
}

function missingView() {
  return [element("div", {}, element("h1", {}, "What is missing"), element("p", { class: "lead" }, "Tables that the store's runs do not allow, and runs that could not be read.")),
    card(`${DATA.missing.length} entries`, "", DATA.missing.length ? element("ul", { class: "missing" }, ...DATA.missing.map((text) => element("li", {}, text))) : element("p", {}, "Nothing."))];
}
