// Charts, drawn by uPlot: hover shows values, a name hides its line, a drag zooms in.

const DASHES = [[], [6, 4], [2, 3], [9, 3, 2, 3]];
const PRINTED = 212; // CSS pixels of a chart on paper, three in a row
const HOVER = { pub: (type) => !["mousedown", "mouseup", "dblclick"].includes(type) }; // charts share the cursor alone
let printing = false;

/** x of all series in one ascending array, and each series' values along it: undefined where it has no point, null
 * where it was not measured. */
function aligned(series) {
  const x = [...new Set(series.flatMap((one) => one.x))].sort((a, b) => a - b);
  const place = new Map(x.map((value, index) => [value, index]));
  const along = (one, values) => {
    const found = Array(x.length).fill(undefined);
    one.x.forEach((value, index) => (found[place.get(value)] = values[index]));
    return found;
  };
  return { x, along };
}

/** The mean of the `window` values around each, fewer at the ends. */
function runningMean(values, window) {
  const places = values.flatMap((value, index) => (value === null || value === undefined ? [] : [index]));
  const found = [...values];
  places.forEach((place, i) => {
    const reach = (window - 1) / 2;
    const near = places.slice(Math.max(0, i - reach), i + reach + 1);
    found[place] = near.reduce((sum, index) => sum + values[index], 0) / near.length;
  });
  return found;
}

const faded = (ink, share) => ink.replace("rgb(", "rgba(").replace(")", `, ${share})`);

/** uPlot's series, data and bands of a chart. Each line of the legend: the series' numbers in uPlot and its own. */
function prepared(chart) {
  const { x, along } = aligned(chart.series);
  const found = { data: [x], series: [{}], bands: [], legend: [] };
  const add = (values, options) => {
    found.data.push(values);
    found.series.push({ spanGaps: false, points: { show: false }, ...options });
    return found.series.length - 1;
  };
  for (const one of chart.series) {
    const ink = colour(`--s${one.colour}`);
    const values = along(one, one.y);
    const dash = DASHES[one.dash % DASHES.length];
    const scatter = chart.kind === "points";
    const parts = [];
    if (!scatter && one.low && one.high) {
      const ends = [one.high, one.low].map((end) => add(along(one, end), { stroke: "transparent", width: 0 }));
      found.bands.push({ series: ends, fill: faded(ink, 0.14) });
      parts.push(...ends);
    }
    if (chart.smooth && chart.series.length <= 2) parts.push(add(values, { stroke: faded(ink, 0.28), width: 1 }));
    const few = one.y.filter((value) => value !== null).length <= 30;
    const shown = chart.smooth ? runningMean(values, chart.smooth) : values;
    const points = { show: scatter || few, size: scatter ? 9 : 4.5, fill: ink, stroke: ink, width: 1 };
    const paths = scatter ? { paths: () => null } : {};
    const main = add(shown, { stroke: ink, width: 1.8, dash, points, ...paths });
    found.legend.push({ one, ink, dash, main, values, parts: [...parts, main] });
  }
  return found;
}

/** A range with a margin; shares stay within 0 and 1 where all values do. */
function range(low, high, percent) {
  if (low === null || high === null) return [0, 1];
  const margin = (high - low || Math.abs(high) || 1) * 0.06;
  const bounded = percent && low >= 0 && high <= 1;
  return bounded ? [Math.max(0, low - margin), Math.min(1.02, high + margin)] : [low - margin, high + margin];
}

/** The range of a chart of points: its error bars count. */
function extent(chart) {
  const ends = chart.series.flatMap((one) => [...one.y, ...(one.low ?? []), ...(one.high ?? [])]);
  const known = ends.filter((value) => value !== null);
  return known.length ? range(Math.min(...known), Math.max(...known), chart.percent) : [0, 1];
}

/** The labels of an axis, with as many digits as tell its marks apart. */
function ticks(chart) {
  const factor = chart.percent ? 100 : 1;
  return (_, splits) => {
    const known = splits.filter((value) => value !== null);
    const gap = Math.abs(known.length > 1 ? known[1] - known[0] : known[0] || 1) * factor;
    const exact = (digits) => Math.abs(gap - Number(gap.toFixed(digits))) < 1e-6 * gap;
    const digits = [0, 1, 2, 3, 4, 5].find(exact) ?? null;
    return splits.map((value) => {
      if (value === null) return "";
      if (digits === null) return value === 0 ? "0" : (factor * value).toExponential(1);
      return formatted(factor * value, "number", digits) + (chart.percent ? "%" : "");
    });
  };
}

/** The names beside the points of a chart of points, and their error bars. */
function drawPoints(plot, legend) {
  const { ctx } = plot;
  const ratio = devicePixelRatio;
  const at = (value, scale) => plot.valToPos(value, scale, true);
  ctx.save();
  ctx.font = `${12 * ratio}px system-ui, sans-serif`;
  for (const { one, ink, main } of legend) {
    if (!plot.series[main].show) continue;
    ctx.fillStyle = ctx.strokeStyle = ink;
    ctx.lineWidth = 1.2 * ratio;
    one.x.forEach((x, i) => {
      if (one.y[i] === null) return;
      if (one.low && one.high && one.low[i] !== null && one.high[i] !== null) {
        ctx.beginPath();
        ctx.moveTo(at(x, "x"), at(one.low[i], "y"));
        ctx.lineTo(at(x, "x"), at(one.high[i], "y"));
        ctx.stroke();
      }
      if (i > 0) return;
      const right = at(x, "x") + ctx.measureText(one.name).width + 10 * ratio > plot.bbox.left + plot.bbox.width;
      ctx.textAlign = right ? "right" : "left";
      ctx.fillText(one.name, at(x, "x") + (right ? -8 : 8) * ratio, at(one.y[i], "y") - 6 * ratio);
    });
  }
  ctx.restore();
}

function sample(ink, dash) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
  const drawn = { x1: 0, x2: 21, y1: 4, y2: 4, stroke: ink, "stroke-width": 2.5, "stroke-dasharray": dash.join(" ") };
  for (const [key, value] of Object.entries(drawn)) line.setAttribute(key, value);
  svg.append(line);
  svg.setAttribute("aria-hidden", "true");
  return svg;
}

/** Names with their values at the cursor; a click hides a series, and `hidden` remembers it. */
function legendOf(chart, ready, hidden, plot) {
  const kind = chart.percent ? "percent" : "number";
  const box = element("div", { class: "legend" });
  const x = element("span", { class: "x" });
  const values = ready.legend.map(({ one, ink, dash, parts }) => {
    const value = element("output");
    const name = element("bdi", { textContent: one.name });
    const button = element("button", { type: "button", "aria-pressed": "true" }, sample(ink, dash), name, value);
    const apply = () => {
      button.setAttribute("aria-pressed", String(!hidden.has(one.name)));
      parts.forEach((part) => plot().setSeries(part, { show: !hidden.has(one.name) }));
    };
    button.addEventListener("click", () => {
      if (!hidden.delete(one.name)) hidden.add(one.name);
      apply();
    });
    box.append(button);
    return { value, apply };
  });
  box.append(x);
  const show = (index) => {
    const away = index === null || index === undefined;
    x.textContent = away ? "" : `${chart.x_label} ${formatted(ready.data[0][index], "number", 2).replace(/\.00$/, "")}`;
    ready.legend.forEach((line, i) => {
      const known = away ? undefined : line.values[index];
      values[i].value.textContent = known === null || known === undefined ? "" : formatted(known, kind, chart.percent ? 1 : 4);
    });
  };
  return { box, show, hide: () => values.forEach(({ apply }, i) => hidden.has(ready.legend[i].one.name) && apply()) };
}

function draw(figure, chart) {
  const holder = figure.querySelector(".plot");
  const hidden = new Set();
  let plot = null;
  let zoom = null;
  let box = null;
  const reset = element("button", { type: "button", class: "control reset", hidden: true }, "Whole range");
  const whole = () => {
    zoom = null;
    redraw();
  };
  reset.addEventListener("click", whole);
  holder.addEventListener("dblclick", whole);
  figure.append(reset);

  function redraw() {
    const ready = prepared(chart);
    const ink = colour("--soft");
    const grid = { stroke: colour("--line"), width: 1 };
    const legend = legendOf(chart, ready, hidden, () => plot);
    const axis = { stroke: ink, grid, ticks: { show: false }, font: "12px system-ui, sans-serif", gap: 4 };
    const width = printing ? PRINTED : Math.max(200, holder.clientWidth);
    const scatter = chart.kind === "points";
    plot?.destroy();
    box?.remove();
    holder.replaceChildren();
    const options = {
      width,
      height: printing ? 160 : 230,
      legend: { show: false },
      cursor: {
        y: false,
        points: { size: 7 },
        drag: { x: true, y: false },
        sync: scatter ? undefined : { key: chart.x_label, scales: ["x", null], filters: HOVER },
      },
      scales: {
        x: { time: false, ...(chart.log_x ? { distr: 3, log: 2 } : {}),
          ...(scatter ? { range: (_, low, high) => (zoom ? [low, high] : range(low, high, false)) } : {}) },
        y: { range: (_, low, high) => (scatter ? extent(chart) : range(low, high, chart.percent)) },
      },
      axes: [
        { ...axis, size: 24, label: chart.x_label, labelSize: 16, labelFont: axis.font, labelGap: 0,
          values: chart.log_x ? undefined : ticks({}), space: 45, grid: { show: false } },
        { ...axis, size: 52, values: ticks(chart), space: 34 },
      ],
      series: ready.series,
      bands: ready.bands,
      hooks: {
        setCursor: [(self) => legend.show(self.cursor.idx)],
        draw: scatter ? [(self) => drawPoints(self, ready.legend)] : [],
        setSelect: [(self) => {
          if (self.select.width < 4) return;
          zoom = [self.posToVal(self.select.left, "x"), self.posToVal(self.select.left + self.select.width, "x")];
          reset.hidden = false;
        }],
      },
    };
    plot = new uPlot(options, ready.data, holder);
    box = legend.box;
    holder.after(box);
    legend.hide();
    reset.hidden = zoom === null;
    if (zoom) plot.setScale("x", { min: zoom[0], max: zoom[1] });
  }
  redraw();
  redraws.add(redraw);
  let size = holder.clientWidth;
  new ResizeObserver(() => {
    if (printing || holder.clientWidth === size) return;
    size = holder.clientWidth;
    plot.setSize({ width: Math.max(200, size), height: 230 });
  }).observe(holder);
}

function setUpCharts() {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const waiting = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) if (isIntersecting) start(target);
  }, { rootMargin: "600px" });
  const start = (figure) => {
    waiting.unobserve(figure);
    if (figure.dataset.drawn) return;
    figure.dataset.drawn = "yes";
    draw(figure, charts[Number(figure.dataset.chart)]);
  };
  const figures = document.querySelectorAll(".chart");
  figures.forEach((figure) => waiting.observe(figure));
  const print = (on) => {
    printing = on;
    if (on) figures.forEach(start);
    redraws.forEach((redraw) => redraw());
  };
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
}

setUpCharts();
