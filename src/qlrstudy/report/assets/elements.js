// Elements of the page. Text only ever becomes text: nothing here parses HTML.

const SVG = "http://www.w3.org/2000/svg";

function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function shape(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false)
      node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

function button(text, action, attributes = {}) {
  return element("button", { type: "button", onclick: action, ...attributes }, text);
}

function card(title, subtitle, ...children) {
  const id = `h${(card.count = (card.count ?? 0) + 1)}`;
  const heading = element(
    "header",
    {},
    element("h2", { id }, title),
    subtitle ? element("p", {}, subtitle) : null,
  );
  return element("section", { class: "card", "aria-labelledby": id }, heading, ...children);
}

function segmented(label, choices, chosen, action) {
  const group = element("div", { class: "choice", role: "group", "aria-label": label });
  for (const [value, text] of choices) {
    group.append(
      button(
        text,
        () => {
          for (const other of group.children)
            other.setAttribute("aria-pressed", String(other.value === value));
          action(value);
        },
        { value, "aria-pressed": String(value === chosen) },
      ),
    );
  }
  return group;
}

function say(text) {
  document.getElementById("said").textContent = text;
}

function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  element("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

function copy(pre, text) {
  const done = () => say("Copied.");
  const select = () => getSelection().selectAllChildren(pre);
  if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, select);
  else select(); // without the right to copy, the reader's own Ctrl-C does
}

function marker(style, x, y, radius, opacity = null) {
  return shape("path", {
    class: "mark",
    d: DATA.markers[style.marker],
    transform: `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${radius})`,
    fill: style.colour,
    "fill-opacity": opacity,
  });
}

function swatch(style) {
  const dash = style.dash.join(" ") || null;
  return shape(
    "svg",
    { width: 30, height: 14, viewBox: "0 0 30 14", "aria-hidden": "true" },
    shape("line", {
      x1: 1,
      x2: 29,
      y1: 7,
      y2: 7,
      stroke: style.colour,
      "stroke-width": 2,
      "stroke-dasharray": dash,
    }),
    marker(style, 15, 7, 4),
  );
}

function dataTable(table, decorate = null) {
  const body = element("tbody");
  const header = element("tr");
  let rows = table.rows;
  const show = () =>
    body.replaceChildren(
      ...rows.map((row) =>
        element(
          "tr",
          {},
          ...row.map((cell, i) =>
            element(
              "td",
              { class: cell.length > 1 ? "number" : null },
              decorate ? decorate(cell[0], i) : cell[0],
            ),
          ),
        ),
      ),
    );
  table.header.forEach((name, column) => {
    const cell = element(
      "th",
      { scope: "col" },
      button(name, () => {
        const rising = cell.getAttribute("aria-sort") !== "ascending";
        for (const other of header.children) other.removeAttribute("aria-sort");
        cell.setAttribute("aria-sort", rising ? "ascending" : "descending");
        rows = [...rows].sort((a, b) => compareCells(a[column], b[column]) * (rising ? 1 : -1));
        show();
        say(`Sorted by ${name}, ${rising ? "rising" : "falling"}.`);
      }),
    );
    header.append(cell);
  });
  show();
  const tools = element("div", { class: "tools" });
  if (table.rows.length > 12) {
    tools.append(
      element(
        "label",
        {},
        "Filter",
        element("input", {
          type: "search",
          oninput: (event) => {
            const wanted = event.target.value.toLowerCase();
            rows = table.rows.filter((row) =>
              row.some((cell) => cell[0].toLowerCase().includes(wanted)),
            );
            show();
          },
        }),
      ),
    );
  }
  if (table.csv)
    tools.append(button("Download CSV", () => download(`${table.name}.csv`, table.csv)));
  return element(
    "div",
    {},
    tools,
    scrolled(
      table.title,
      element(
        "table",
        { class: "data" },
        element("caption", { class: "unseen" }, table.title),
        element("thead", {}, header),
        body,
      ),
    ),
  );
}

// A table in a frame of its own, which says where there is more of it.
function scrolled(title, table) {
  const attributes = { class: "scroll", tabindex: 0, role: "region", "aria-label": title };
  const frame = element("div", attributes, table);
  const hint = element("p", { class: "hint more" });
  const look = () => {
    const right = frame.scrollLeft + frame.clientWidth < frame.scrollWidth - 4;
    const down = frame.scrollTop + frame.clientHeight < frame.scrollHeight - 4;
    frame.classList.toggle("fading", right);
    hint.textContent = right || down ? `Scroll for more ${right ? "→" : ""}${down ? "↓" : ""}` : "";
  };
  frame.addEventListener("scroll", look);
  new ResizeObserver(look).observe(frame);
  return element("div", {}, frame, hint);
}

function compareCells(a, b) {
  if (a.length > 1 || b.length > 1) return (a[1] ?? Infinity) - (b[1] ?? Infinity) || 0;
  return a[0].localeCompare(b[0], "en-GB", { numeric: true });
}
