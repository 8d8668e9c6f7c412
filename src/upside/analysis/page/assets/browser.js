// The browser of responses: groups found by text, step, tag, outcome and sign, a page of them at a time.

const PAGE = 20; // groups
const SNIPPET = 140; // characters of a text that is folded in
const OUTCOMES = { any: "any outcome", right: "with a correct one", wrong: "with a wrong one" };
const SIGNS = { any: "any advantage", positive: "advantage above 0", negative: "advantage below 0", zero: "advantage 0" };

/** The groups of one source; a response is {text, why, values}. */
async function unpacked(index) {
  const text = document.getElementById(`groups-${index}`).textContent;
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const found = JSON.parse(await new Response(stream).text());
  const columns = found.columns.map(([name, kind, digits, help]) => ({ name, kind, digits, help }));
  const numeric = columns.findLastIndex((column) => column.kind !== "text");
  const named = (name) => columns.findIndex((column) => column.name === name);
  const groups = found.groups.map(([step, group, prompt, sentence, tags, responses, pictures]) => ({
    step, group, prompt, sentence, tags, pictures: pictures.map((number) => found.pictures[number]),
    responses: responses.map(([text, why, values], row) => ({ row, text: text ?? "", why, values })),
  }));
  const advantage = named("advantage") < 0 ? numeric : named("advantage");
  return { ...found, columns, groups, correct: named("correct"), advantage };
}

const isRight = (value) => (value === null || value === undefined ? null : value === true || value === 1 || value === "yes" || value === "correct");

/** Whether a response fits the outcome and the sign that are asked for. */
function fits(response, data, wanted) {
  if (wanted.outcome !== "any" && data.correct >= 0) {
    const right = isRight(response.values[data.correct]);
    if (right === null || right !== (wanted.outcome === "right")) return false;
  }
  if (wanted.sign !== "any" && data.advantage >= 0) {
    const value = response.values[data.advantage];
    if (typeof value !== "number") return false;
    return wanted.sign === "zero" ? value === 0 : wanted.sign === "positive" ? value > 0 : value < 0;
  }
  return true;
}

/** The groups that fit, sorted. */
function chosen(data, wanted) {
  const needle = wanted.text.toLowerCase();
  const holds = (text) => String(text ?? "").toLowerCase().includes(needle);
  const found = data.groups.filter((group) =>
    group.step >= wanted.from && group.step <= wanted.to
    && wanted.tags.every((tag) => group.tags.includes(tag))
    && (!needle || holds(group.prompt) || group.responses.some((response) => holds(response.text)))
    && group.responses.some((response) => fits(response, data, wanted)));
  const sign = wanted.descending ? -1 : 1;
  const key = wanted.sort < 0 ? (group) => group.step : (group) => mean(group, wanted.sort);
  return found.map((group) => [key(group), group]).sort((a, b) => compared(a[0], b[0], sign)).map(([, group]) => group);
}

function mean(group, column) {
  const known = group.responses.map((response) => Number(response.values[column] ?? NaN)).filter((value) => !isNaN(value));
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}

/** The text with what was searched for marked, as nodes. */
function marked(text, needle) {
  if (!needle) return [text];
  const lower = text.toLowerCase();
  if (lower.length !== text.length) return [text]; // İ and its like move the places
  const nodes = [];
  let from = 0;
  for (let at = lower.indexOf(needle); at >= 0 && nodes.length < 400; at = lower.indexOf(needle, from)) {
    nodes.push(text.slice(from, at), element("mark", { textContent: text.slice(at, at + needle.length) }));
    from = at + needle.length;
  }
  nodes.push(text.slice(from));
  return nodes;
}

const snippet = (text) => (text.length > SNIPPET ? `${text.slice(0, SNIPPET)}…` : text).replace(/\s+/g, " ");

const spaced = (tag) => tag.replaceAll("_", " ");

function select(label, options, changed) {
  const box = element("select", { class: "control", "aria-label": label });
  for (const [value, text] of options) box.append(element("option", { value, textContent: text }));
  box.addEventListener("change", () => changed(box.value));
  return box;
}

function responseTable(group, data, wanted) {
  const table = element("table", { class: "responses" });
  const head = element("tr", {}, element("th", { scope: "col", "data-unsorted": "" }), element("th", { scope: "col", class: "n" }, "#"));
  for (const column of data.columns) {
    const properties = { scope: "col", class: column.kind === "text" ? "" : "n", ...(column.help ? { title: column.help } : {}) };
    head.append(element("th", properties, element("bdi", { textContent: column.name })));
  }
  head.append(element("th", { scope: "col", "data-unsorted": "" }, "response"));
  table.append(element("thead", {}, head));
  for (const response of group.responses) table.append(responseBody(response, data, wanted));
  if (group.responses.length > 1) {
    const byRow = new Map([...table.tBodies].map((body, i) => [body, group.responses[i]]));
    makeSortable(table, (body, column) => {
      const value = column === 1 ? byRow.get(body).row : byRow.get(body).values[column - 2];
      return typeof value === "boolean" ? Number(value) : value ?? null;
    });
  }
  return element("div", { class: "wide", tabIndex: 0 }, table);
}

/** A response: a row of its numbers, and a row with why and the text that a button unfolds. */
function responseBody(response, data, wanted) {
  const needle = wanted.text.toLowerCase();
  const hit = needle !== "" && response.text.toLowerCase().includes(needle);
  const button = element("button", { type: "button", class: "unfold", "aria-expanded": "false", "aria-label": `Text of response ${response.row}` });
  const row = element("tr", { class: fits(response, data, wanted) ? "" : "other" }, element("td", {}, button));
  row.append(element("td", { class: "n" }, String(response.row)));
  data.columns.forEach((column, i) => {
    const value = response.values[i];
    const shown = element("bdi", { textContent: i === data.correct && typeof value === "boolean" ? (value ? "✓ yes" : "✕ no") : formatted(value, column.kind, column.digits) });
    const tone = i === data.correct ? { true: "right", false: "wrong" }[isRight(value)] ?? "" : "";
    row.append(element("td", { class: `${column.kind === "text" ? "" : "n"} ${tone}` }, shown));
  });
  row.append(element("td", { class: "snippet", dir: "auto", textContent: snippet(response.text) }));
  const detail = element("tr", { hidden: true });
  const unfold = (open) => {
    if (open && !detail.firstChild) {
      const cell = element("td", { colSpan: data.columns.length + 3 });
      const inside = element("div", { class: "detail" });
      if (response.why) inside.append(element("p", { dir: "auto", textContent: response.why }));
      inside.append(element("pre", { dir: "auto", tabIndex: 0 }, ...marked(response.text, needle)));
      cell.append(inside);
      detail.append(cell);
    }
    detail.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
  };
  button.addEventListener("click", () => unfold(detail.hidden));
  if (hit) unfold(true);
  return element("tbody", {}, row, detail);
}

/** A picture of a prompt, enlarged without smoothing; its file where the page has no room for it. */
function pictureOf([file, content], alt) {
  if (!content) return element("span", { class: "snippet", textContent: file });
  return element("img", { src: `data:image/png;base64,${content}`, alt, title: alt ? file : "" });
}

function groupCard(group, data, wanted, open) {
  const summary = element("summary", {}, element("span", { class: "where" }, `Step ${group.step}, group ${group.group}`));
  const marks = group.responses.map((response) => isRight(response.values[data.correct]));
  if (data.correct >= 0) {
    const strip = element("span", { class: "strip", role: "img", "aria-label": `${marks.filter(Boolean).length} of ${marks.length} correct` });
    marks.forEach((right) => strip.append(element("i", { class: right === null ? "" : right ? "right" : "wrong" })));
    summary.append(strip);
  }
  group.tags.forEach((tag) => summary.append(element("span", { class: "tag", textContent: spaced(tag), title: data.meanings[tag] ?? "" })));
  group.pictures.filter(([, content]) => content).forEach((picture) => summary.append(pictureOf(picture, "")));
  summary.append(element("span", { class: "snippet", dir: "auto", textContent: snippet(group.prompt ?? "") }));
  const card = element("details", { class: "group" }, summary);
  card.addEventListener("toggle", () => {
    if (!card.open || card.childElementCount > 1) return;
    if (group.sentence) card.append(element("p", { dir: "auto", textContent: group.sentence }));
    if (group.pictures.length) {
      const shown = group.pictures.map((picture, i) => pictureOf(picture, `Picture ${i + 1} of ${group.pictures.length} of the prompt ${snippet(group.prompt ?? "")}`));
      card.append(element("div", { class: "pictures" }, ...shown));
    }
    card.append(element("pre", { class: "prompt", dir: "auto", tabIndex: 0 }, ...marked(group.prompt ?? "", wanted.text.toLowerCase())));
    card.append(responseTable(group, data, wanted));
  });
  card.open = open;
  return card;
}

function browse(box) {
  const indices = box.dataset.groups.split(" ");
  const names = JSON.parse(box.dataset.sources);
  const loaded = new Map();
  const wanted = { text: "", tags: [], outcome: "any", sign: "any", sort: -1, descending: false, from: -Infinity, to: Infinity };
  let data = null;
  let at = 0;
  const bar = element("form", { class: "bar" });
  const tags = element("div", { class: "tags", role: "group", "aria-label": "Kinds of groups" });
  const count = element("p", { class: "count", role: "status" });
  const help = element("details", { class: "help" });
  const list = element("div", { class: "list" });
  const pager = element("div", { class: "pager" });
  bar.addEventListener("submit", (event) => event.preventDefault());
  box.replaceChildren(bar, tags, help, count, list, pager);
  const refilter = () => {
    at = 0;
    show();
  };

  function bounds(name, label) {
    const input = element("input", { type: "number", class: "control step", placeholder: label, "aria-label": `Steps ${label}` });
    input.addEventListener("input", () => {
      wanted[name] = input.value === "" ? (name === "from" ? -Infinity : Infinity) : Number(input.value);
      refilter();
    });
    return input;
  }

  function setUpBar() {
    const search = element("input", { type: "search", class: "control search", placeholder: "Search prompts and responses", "aria-label": "Search", value: wanted.text });
    let timer = 0;
    search.addEventListener("input", () => {
      wanted.text = search.value;
      clearTimeout(timer);
      timer = setTimeout(refilter, 120);
    });
    const sorts = [[-1, "sort by step"], ...data.columns.flatMap((column, i) => (column.kind === "text" ? [] : [[i, `sort by mean ${column.name}`]]))];
    const order = element("button", { type: "button", class: "control", "aria-label": "Turn the order" }, "↑");
    order.addEventListener("click", () => {
      wanted.descending = !wanted.descending;
      order.textContent = wanted.descending ? "↓" : "↑";
      refilter();
    });
    bar.replaceChildren();
    if (indices.length > 1) {
      const run = select("Run", names.map((name, i) => [i, name]), (value) => open(Number(value)));
      run.value = data.place;
      bar.append(run);
    }
    bar.append(search, bounds("from", "from step"), bounds("to", "to step"));
    if (data.correct >= 0) bar.append(select("Outcome", Object.entries(OUTCOMES), (value) => { wanted.outcome = value; refilter(); }));
    if (data.advantage >= 0) bar.append(select("Advantage", Object.entries(SIGNS), (value) => { wanted.sign = value; refilter(); }));
    bar.append(select("Sort", sorts, (value) => { wanted.sort = Number(value); refilter(); }), order);
    setUpTags();
    setUpHelp();
  }

  function setUpHelp() {
    const known = new Set(data.groups.flatMap((group) => group.tags));
    const said = [
      ...data.columns.map(({ name, help }) => [name, help]),
      ...Object.entries(data.meanings).filter(([tag]) => known.has(tag)).map(([tag, text]) => [spaced(tag), text]),
    ].filter(([, text]) => text);
    const words = said.flatMap(([name, text]) => [
      element("dt", { textContent: name }), element("dd", { dir: "auto", textContent: text })]);
    help.hidden = said.length === 0;
    help.replaceChildren(element("summary", {}, "What the columns and kinds say"), element("dl", {}, ...words));
  }

  function setUpTags() {
    const counts = new Map();
    data.groups.forEach((group) => group.tags.forEach((tag) => counts.set(tag, (counts.get(tag) ?? 0) + 1)));
    tags.replaceChildren(...[...counts].sort().map(([tag, number]) => {
      const button = element("button", { type: "button", class: "control tag", "aria-pressed": "false" }, `${spaced(tag)} `);
      button.append(element("small", {}, number.toLocaleString("en")));
      button.addEventListener("click", () => {
        const on = !wanted.tags.includes(tag);
        wanted.tags = on ? [...wanted.tags, tag] : wanted.tags.filter((other) => other !== tag);
        button.setAttribute("aria-pressed", String(on));
        refilter();
      });
      return button;
    }));
  }

  function show() {
    const found = chosen(data, wanted);
    const pages = Math.max(1, Math.ceil(found.length / PAGE));
    at = Math.min(at, pages - 1);
    const rest = data.groups.length < data.total ? `; the page holds ${data.groups.length.toLocaleString("en")} of the log's ${data.total.toLocaleString("en")}` : "";
    count.textContent = `${found.length.toLocaleString("en")} of ${data.groups.length.toLocaleString("en")} groups${rest}. ${data.note ?? ""}`;
    const shown = found.slice(at * PAGE, (at + 1) * PAGE);
    list.replaceChildren(...shown.map((group, i) => groupCard(group, data, wanted, i === 0 || wanted.text !== "")));
    pager.hidden = pages === 1;
    const turn = (text, to) => {
      const button = element("button", { type: "button", class: "control", disabled: to < 0 || to >= pages }, text);
      button.addEventListener("click", () => {
        at = to;
        show();
        box.scrollIntoView();
      });
      return button;
    };
    pager.replaceChildren(turn("‹ Previous", at - 1), element("span", {}, `Page ${at + 1} of ${pages.toLocaleString("en")}`), turn("Next ›", at + 1));
  }

  async function open(place) {
    count.textContent = "Unpacking the responses …";
    if (!loaded.has(place)) loaded.set(place, await unpacked(indices[place]));
    data = { ...loaded.get(place), place };
    Object.assign(wanted, { tags: [], outcome: "any", sign: "any", sort: -1, descending: false, from: -Infinity, to: Infinity });
    setUpBar();
    refilter();
  }
  return open(0);
}

function setUpBrowsers() {
  const waiting = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      waiting.unobserve(target);
      browse(target).catch((error) => {
        target.replaceChildren(element("p", { class: "callout", textContent: `The responses could not be unpacked (${error.message}); a browser of 2023 or later can.` }));
      });
    }
  }, { rootMargin: "400px" });
  document.querySelectorAll(".browser").forEach((box) => waiting.observe(box));
}

setUpBrowsers();
