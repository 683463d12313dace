// Which view is shown, and the theme.

const DATA = JSON.parse(document.getElementById("data").textContent);
const VIEWS = new Map([
  ["overview", overview],
  ...DATA.sections.map((section) => [section.id, () => sectionView(section)]),
  ["tables", tablesView],
  ["mind", warningsView],
]);

function navigation() {
  const link = (id, text) => element("li", {}, element("a", { href: `#${id}` }, text));
  const tasks = [...Map.groupBy(DATA.sections, (section) => section.task)].map(([task, own]) =>
    element(
      "li",
      {},
      element("span", { class: "task" }, task),
      element("ul", {}, ...own.map((section) => link(section.id, section.detail))),
    ),
  );
  document
    .getElementById("views")
    .append(
      element("ul", {}, link("overview", "Overview")),
      element("p", {}, "Tasks"),
      element("ul", {}, ...tasks),
      element("p", {}, "More"),
      element(
        "ul",
        {},
        link("tables", "All tables"),
        link("mind", `What to mind (${DATA.warnings.length})`),
      ),
    );
}

function show() {
  const asked = decodeURIComponent(location.hash.slice(1));
  if (asked === "main") return;
  const name = VIEWS.has(asked) ? asked : "overview";
  const main = document.getElementById("main");
  main.replaceChildren(...VIEWS.get(name)());
  main.dataset.view = name;
  for (const link of document.querySelectorAll("#views a")) {
    if (link.hash === `#${name}`) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "nearest" });
    } else link.removeAttribute("aria-current");
  }
  document.title = `${main.querySelector("h1").textContent} – AdamQLR study`;
  scrollTo(0, 0);
}

function remembered(theme) {
  // A page opened as a file may have no storage; then the choice lasts as long as it.
  try {
    if (theme) localStorage.setItem("theme", theme);
    return localStorage.getItem("theme");
  } catch {
    return null;
  }
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  const other = theme === "dark" ? "light" : "dark";
  const control = document.getElementById("theme");
  control.textContent = theme === "dark" ? "☀ Light" : "☾ Dark";
  control.setAttribute("aria-label", `Switch to the ${other} theme`);
  control.onclick = () => {
    remembered(other);
    setTheme(other);
  };
}

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
setTheme(remembered() ?? (prefersDark.matches ? "dark" : "light"));
prefersDark.addEventListener("change", (event) => {
  if (!remembered()) setTheme(event.matches ? "dark" : "light");
});
document.getElementById("store").textContent = `report of ${DATA.store}`;
navigation();
show();
addEventListener("hashchange", () => {
  show();
  document.getElementById("main").focus({ preventScroll: true });
});
document.documentElement.dataset.ready = "true";
performance.mark("ready");
