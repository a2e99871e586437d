// Plots a column of numbers over dates as a line, whose points can be read one by one.

import { byId, el, plural, svg } from "./page.js";

const HEIGHT = 280;
const TOP = 12;
const BOTTOM = HEIGHT - 26;
const RIGHT = 14;
const LETTER = 7; // width of one letter of a label
const LIKELY = /收盘|最新价|净值|收益率|close|price|value|今值/i;
const DATE =
  /^\d{4}([-/年]\d{1,2}([-/月]\d{1,2})?(月?份?|日)([ T]\d\d:\d\d(:\d\d)?.*)?|[01]\d[0-3]\d)$/;

let rows = [];
let dates = null; // the name of the column of dates
let chart = null; // the drawn points, the functions that place them, and the marker

// Offers the numeric columns of a table, none if the table has no column of distinct dates.
export function plot(given, columns, numeric) {
  rows = given;
  dates = columns.find((name) => areDates(rows.map((row) => row[name])));
  byId("plot").hidden = dates === undefined || numeric.length === 0;
  if (byId("plot").hidden) return;
  const choice = byId("series");
  const before = choice.value;
  const likely = numeric.find((name) => LIKELY.test(name)) ?? numeric[0];
  choice.replaceChildren(...numeric.map((name) => el("option", { value: name }, name)));
  choice.value = numeric.includes(before) ? before : likely;
  byId("point").max = rows.length;
  byId("point").value = rows.length;
  draw();
}

function areDates(values) {
  const there = values.filter((value) => value != null);
  const times = new Set(there.map(timeOf));
  return there.length >= 3 && times.size === there.length && !times.has(NaN);
}

// Returns the milliseconds since 1970 of a date as it is written; its time zone is ignored.
function timeOf(value) {
  if (typeof value !== "string" || !DATE.test(value)) return NaN;
  const plain = value.replace(/^(\d{4})(\d\d)(\d\d)$/, "$1-$2-$3");
  const [year, month, day = 1, ...time] = plain.match(/\d+/g).map(Number);
  return month <= 12 && day <= 31 ? Date.UTC(year, month - 1, day, ...time.slice(0, 3)) : NaN;
}

function draw() {
  const name = byId("series").value;
  const points = rows
    .map((row) => ({ at: timeOf(row[dates]), date: row[dates], value: row[name] ?? null }))
    .filter(({ at }) => !Number.isNaN(at))
    .sort((a, b) => a.at - b.at);
  const known = points.filter(({ value }) => value !== null);
  const axis = valueAxis(known.map(({ value }) => value));
  byId("canvas").replaceChildren();
  byId("canvas").hidden = byId("point").disabled = axis === null;
  byId("plot-text").textContent = inWords(name, known);
  byId("readout").textContent = "";
  const width = byId("canvas").clientWidth;
  if (width === 0) return;

  const [start, end] = [known[0].at, known.at(-1).at];
  const { ticks, label } = axis;
  const left = 14 + LETTER * Math.max(...ticks.map((tick) => label(tick).length));
  const right = width - RIGHT;
  const x = (at) => left + ((at - start) / Math.max(end - start, 1)) * (right - left);
  const y = (value) => BOTTOM - ((value - ticks[0]) / (ticks.at(-1) - ticks[0])) * (BOTTOM - TOP);

  let free = left; // position from which the next date label fits
  const dated = known.filter(({ at, date }) => {
    const needed = LETTER * date.length + 20;
    if (x(at) < free || x(at) + needed > width + RIGHT) return false;
    free = x(at) + needed;
    return true;
  });

  const marker = svg("g", {}, svg("line", { y1: TOP, y2: BOTTOM }), svg("circle", { r: 4 }));
  byId("canvas").append(
    svg(
      "svg",
      { width, height: HEIGHT, "aria-hidden": "true" },
      ...ticks.flatMap((tick) => [
        svg("line", { x1: left, x2: right, y1: y(tick), y2: y(tick) }),
        svg("text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, label(tick)),
      ]),
      ...dated.flatMap(({ at, date }) => [
        svg("line", { x1: x(at), x2: x(at), y1: BOTTOM, y2: BOTTOM + 20 }),
        svg("text", { x: x(at) + 4, y: BOTTOM + 19 }, date),
      ]),
      ...runsOf(points).flatMap((run) => {
        const line = run.map(({ at, value }) => `${x(at)},${y(value)}`).join("L");
        const [from, to] = [x(run[0].at), x(run.at(-1).at)];
        return [
          svg("path", { class: "area", d: `M${from},${BOTTOM}L${line}L${to},${BOTTOM}Z` }),
          svg("path", { class: "line", d: `M${line}h0` }), // h0 draws a single point as a dot
        ];
      }),
      marker,
    ),
  );
  chart = { known, marker, x, y };
  byId("point").max = known.length - 1;
  read();
}

// Marks the chosen point and writes its date and value.
function read() {
  const { known, marker, x, y } = chart;
  const { at, date, value } = known[byId("point").value];
  marker.setAttribute("transform", `translate(${x(at)})`);
  marker.lastChild.setAttribute("cy", y(value));
  byId("readout").textContent = `${date}: ${value}`;
  byId("point").setAttribute("aria-valuetext", `${date}: ${value}`);
}

function readNear(event) {
  const place = event.clientX - byId("canvas").getBoundingClientRect().left;
  const far = ({ at }) => Math.abs(chart.x(at) - place);
  const { known } = chart;
  byId("point").value = known.reduce((near, one, n) => (far(one) < far(known[near]) ? n : near), 0);
  read();
}

function inWords(name, known) {
  if (known.length === 0) return `${name}: no values.`;
  const lowest = known.reduce((a, b) => (b.value < a.value ? b : a));
  const highest = known.reduce((a, b) => (b.value > a.value ? b : a));
  const said = ({ value, date }) => `${value} on ${date}`;
  return (
    `${name} at ${plural(known.length, "date")}, from ${said(known[0])} to ` +
    `${said(known.at(-1))}; lowest ${said(lowest)}, highest ${said(highest)}.`
  );
}

// Splits the points into runs without missing values, so that the line has gaps there.
function runsOf(points) {
  const runs = [[]];
  for (const point of points) {
    if (point.value === null) runs.push([]);
    else runs.at(-1).push(point);
  }
  return runs.filter((run) => run.length);
}

// Returns null if there is no axis: without values, or if no number can hold their range or a step.
function valueAxis(values) {
  if (values.length === 0) return null;
  const low = values.reduce((a, b) => Math.min(a, b));
  const high = values.reduce((a, b) => Math.max(a, b));
  const rough = (high - low || Math.abs(low) / 10 || 1) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find((one) => one * power >= rough) * power;
  const first = Math.floor(low / step);
  const count = Math.max(Math.ceil(high / step) - first, 1);
  const ticks = Array.from({ length: count + 1 }, (_, n) => (first + n) * step);
  const range = ticks.at(-1) - ticks[0];
  if (!(range > 0 && range < Infinity)) return null;
  const largest = Math.max(-ticks[0], ticks.at(-1));
  const isLong = step < 1e-9 || largest > 1e15;
  const format = new Intl.NumberFormat("en", {
    notation: isLong ? "scientific" : step < 1e5 ? "standard" : "compact",
    maximumSignificantDigits: Math.min(Math.ceil(Math.log10(largest / step)) + 2, 21),
  });
  return { ticks, label: (tick) => format.format(tick) };
}

new ResizeObserver(() => byId("plot").hidden || draw()).observe(byId("canvas"));
byId("series").addEventListener("change", draw);
byId("point").addEventListener("input", read);
byId("canvas").addEventListener("pointermove", readNear);
