"use strict";
// What all parts of the page use, the colour scheme and the sorting of tables. Text from a model goes into the page
// as textContent alone.

/** A new element. properties: its own, "class" and "data-…" too; children: elements and texts. */
function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in made && key !== "list") made[key] = value;
    else made.setAttribute(key === "class" ? "class" : key, value);
  }
  made.append(...children);
  return made;
}

/** A value as its column's kind has it, like upside.analysis.show.number. */
function formatted(value, kind = "number", digits = 1) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "string") return value;
  const scaled = kind === "percent" || kind === "points" ? 100 * value : value;
  const whole = kind === "text" || (Number.isInteger(scaled) && digits === 0);
  let text = scaled.toLocaleString("en", { minimumFractionDigits: whole ? 0 : digits, maximumFractionDigits: digits });
  if (/^-[0.,]*$/.test(text)) text = text.slice(1);
  if ((kind === "signed" || kind === "points") && !text.startsWith("-")) text = `+${text}`;
  return text + ({ percent: "%", seconds: " s" }[kind] ?? "");
}

const probe = document.body.appendChild(element("span", { hidden: true }));

/** The colour a custom property has now, as the canvas wants it. */
function colour(name) {
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

const redraws = new Set(); // called when colours or sizes are others

const THEMES = { auto: "Colours: system", light: "Colours: light", dark: "Colours: dark" };

function setUpTheme() {
  const button = document.getElementById("theme");
  const root = document.documentElement;
  const stored = (value) => {
    try {
      if (value) localStorage.setItem("upside-theme", value);
      return localStorage.getItem("upside-theme");
    } catch {
      return value ?? null; // storage is refused to some files; the choice lasts as long as the page
    }
  };
  const choose = (theme) => {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
    button.textContent = THEMES[theme];
    button.value = theme;
    redraws.forEach((redraw) => redraw());
  };
  const names = Object.keys(THEMES);
  choose(names.includes(stored()) ? stored() : "auto");
  button.hidden = false;
  button.addEventListener("click", () => {
    const next = names[(names.indexOf(button.value) + 1) % names.length];
    stored(next);
    choose(next);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraws.forEach((redraw) => redraw()));
}

/** Compare two keys, numbers by size and texts by the alphabet; what is missing comes last either way. */
function compared(a, b, sign) {
  if (a === null || b === null) return (a === null) - (b === null);
  if (typeof a === "number" && typeof b === "number") return sign * (a - b);
  return sign * String(a).localeCompare(String(b), "en", { numeric: true });
}

/** Turn a table's headings into buttons that sort its rows. key(row, column) gives what to sort by. */
function makeSortable(table, key) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    if (head.hasAttribute("data-unsorted")) return;
    const button = element("button", { type: "button" });
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") ? head.getAttribute("aria-sort") === "ascending"
        : head.classList.contains("n");
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const bodies = [...table.tBodies];
      const units = bodies.length > 1 ? bodies : [...bodies[0].rows];
      const keyed = units.map((unit) => [key(unit, column), unit]);
      keyed.sort((a, b) => compared(a[0], b[0], down ? -1 : 1));
      keyed.forEach(([, unit]) => (bodies.length > 1 ? table : bodies[0]).append(unit));
    });
  });
}

function setUpTables() {
  for (const table of document.querySelectorAll("table.sortable")) {
    if (table.tBodies[0].rows.length < 2) continue;
    makeSortable(table, (row, column) => {
      const cell = row.cells[column];
      if (cell.dataset.sort !== undefined) return Number(cell.dataset.sort);
      return cell.textContent === "–" ? null : cell.textContent;
    });
  }
}

setUpTheme();
setUpTables();
