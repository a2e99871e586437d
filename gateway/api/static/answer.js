// Shows the result of a call: its provenance, and the error, the table or the document.

import { duration } from "./duration.js";
import { announce, ask, byId, el, number, plural } from "./page.js";
import { plot } from "./plot.js";

const STEP = 1000; // rows shown at first, and added on each request for more
const OPEN_LINES = 200; // lines of a document that are expanded at first
const LONG = 60; // characters above which a text is broken into lines
const AMBER = { simulated: "amber", stale: "amber" };
const FAULTS = {
  agent: "the request",
  tool: "the tool or its upstream",
  quota: "a quota or a rate limit",
  gateway: "the gateway",
};

export function show(envelope) {
  const { ok, error, data, provenance } = envelope;
  const isTable = ok && envelope.columns !== null;
  byId("result").hidden = false;
  byId("result").classList.toggle("failed", !ok);
  byId("result-title").textContent = ok ? "Answer" : "No answer";
  byId("error").replaceChildren(...(ok ? [] : linesOf(error)));
  byId("provenance").replaceChildren(...(provenance ? factsOf(provenance) : []));
  const remarks = Object.entries(envelope.aliases ?? {}).map(
    ([theirs, ours]) => `Taken ${theirs} for ${ours}. `,
  );
  if (envelope.shown) remarks.push(`Cut to ${envelope.shown}.`);
  byId("remark").textContent = remarks.join("");
  byId("tree").replaceChildren(...(ok && !isTable ? [twig([], data, { lines: OPEN_LINES })] : []));
  byId("rows").hidden = !isTable;
  showTable(isTable ? envelope : { columns: [], data: [], rows: 0, offset: 0, handle: null });
  byId("result").scrollIntoView({ block: "nearest" });
  if (ok) announce(isTable ? `Answered: ${byId("count").textContent}.` : "Answered.");
}

function linesOf({ code, message, fault, retryable, retry_after_s: wait }) {
  const later = wait ? `Try again in ${duration(Math.ceil(wait))}.` : "Trying again may help.";
  const again = retryable ? later : "Trying again as it is will not help.";
  const about = `At fault: ${FAULTS[fault] ?? fault}. ${again}`;
  return [el("code", {}, code), el("p", {}, message), el("p", {}, about)];
}

function factsOf(made) {
  const facts = {
    Source: made.source,
    Upstream: made.upstream,
    Age: made.age_s === undefined ? null : made.age_s < 1 ? "under 1 s" : duration(Math.floor(made.age_s)),
    Attempts: String(made.attempts),
    Took: `${number(made.elapsed_ms, 1)} ms`,
    Snapshot: made.snapshot,
    Digest: made.digest?.slice(0, 12),
    Call: made.call_id,
  };
  return Object.entries(facts)
    .filter(([, value]) => value)
    .map(([name, value]) =>
      el("div", {}, el("dt", {}, name), el("dd", { class: AMBER[value] ?? null }, value)),
    );
}

// Documents: a tree. The content of a closed node is built when the node is opened.

function twig(label, value, room) {
  if (typeof value !== "object" || value === null) return el("p", {}, ...label, String(value));
  const entries = Object.entries(value);
  const size = Array.isArray(value)
    ? `[ ${plural(entries.length, "item")} ]`
    : `{ ${plural(entries.length, "field")} }`;
  const branch = el("details", {}, el("summary", {}, ...label, size));
  const open = () => {
    for (const [key, one] of entries) branch.append(twig([el("em", {}, `${key}: `)], one, room));
  };
  branch.addEventListener("toggle", open, { once: true });
  branch.open = entries.length <= room.lines;
  if (branch.open) room.lines -= entries.length;
  return branch;
}

// Tables.

const collator = new Intl.Collator("zh", { numeric: true });
let table = null;

function showTable({ columns, data, rows, offset, handle }) {
  const described = [...(byId("columns")?.rows ?? [])].map((row) => [...row.cells]);
  const meanings = new Map(described.map((cells) => cells.map((cell) => cell.textContent)));
  const heads = columns.map((name) => {
    const lang = /\p{Script=Han}/u.test(name) ? "zh" : null;
    const button = el("button", { type: "button", lang }, name);
    button.addEventListener("click", () => sortBy(name));
    return el("th", { scope: "col" }, button, el("small", {}, meanings.get(name) ?? ""));
  });
  table = { columns, heads, rows: data, total: rows ?? data.length, offset, handle };
  Object.assign(table, { limit: STEP, by: null, direction: null });
  byId("head").replaceChildren(...heads);
  loaded();
}

// Whether a column holds numbers only; missing values are ignored.
function isNumeric(name) {
  const there = table.rows.map((row) => row[name]).filter((value) => value != null);
  return there.length > 0 && there.every((value) => typeof value === "number");
}

function loaded() {
  const numeric = table.columns.filter(isNumeric);
  table.formats = table.columns.map((name, n) => {
    table.heads[n].classList.toggle("number", numeric.includes(name));
    return numeric.includes(name) ? numberFormat(name) : null;
  });
  showRows();
  plot(table.rows, table.columns, numeric);
}

// Formats all rows with the same number of decimal places, so that the decimal points are aligned.
// A number so large or small that JavaScript writes it with an exponent is shown in this form.
function numberFormat(name) {
  const hasExponent = (value) => String(value).includes("e");
  const plain = table.rows.map((row) => row[name]).filter((value) => !hasExponent(value));
  const places = plain.map((value) => String(value).split(".")[1]?.length ?? 0);
  const { format } = new Intl.NumberFormat("en", {
    useGrouping: false,
    minimumFractionDigits: Math.min(places.reduce((a, b) => Math.max(a, b), 0), 4),
    maximumFractionDigits: 20,
  });
  return (value) => (hasExponent(value) ? String(value) : format(value));
}

function showRows() {
  const fromEnd = table.offset > 0 && table.direction === null;
  const shown = fromEnd ? table.rows.slice(-table.limit) : inOrder().slice(0, table.limit);
  byId("body").replaceChildren(...shown.map(rowOf));
  const left = table.total - shown.length;
  byId("count").textContent =
    (table.offset > 0 ? "the last " : "") +
    (left > 0 ? `${number(shown.length)} of ` : "") +
    plural(table.total, "row");
  byId("more").hidden = left <= 0 || (shown.length === table.rows.length && !table.handle);
  byId("more").textContent = `Show ${number(Math.min(left, STEP))} more`;
}

function rowOf(row) {
  const cells = table.columns.map((name, n) => {
    const [value, format] = [row[name] ?? "", table.formats[n]];
    if (format) return el("td", { class: "number" }, value === "" ? "" : format(value));
    const text = typeof value === "object" ? JSON.stringify(value) : String(value);
    return el("td", { class: text.length > LONG ? "long" : null }, text);
  });
  return el("tr", {}, ...cells);
}

// Rows without a value come last in both directions.
function inOrder() {
  const { rows, by, direction } = table;
  if (direction === null) return rows;
  const sign = direction === "ascending" ? 1 : -1;
  return rows.toSorted((a, b) => {
    const [x, y] = [a[by], b[by]];
    if (x == null || y == null) return (x == null) - (y == null);
    const areNumbers = typeof x === "number" && typeof y === "number";
    return sign * (areNumbers ? x - y : collator.compare(x, y));
  });
}

function sortBy(name) {
  const next = { null: "ascending", ascending: "descending", descending: null };
  table.direction = table.by === name ? next[table.direction] : "ascending";
  table.by = name;
  for (const head of table.heads) head.removeAttribute("aria-sort");
  const head = table.heads[table.columns.indexOf(name)];
  if (table.direction) head.setAttribute("aria-sort", table.direction);
  showRows();
  announce(table.direction ? `Sorted by ${name}, ${table.direction}.` : "In the order it came in.");
}

// Shows more of the loaded rows, then loads others from the gateway by their handle: the rows
// before the loaded ones if these are the last of the table, else the rows after them.
async function showMore() {
  const here = table;
  const size = Math.min(here.limit + STEP, here.total) - here.rows.length;
  const isBefore = here.offset > 0;
  const offset = isBefore ? Math.max(here.offset - size, 0) : here.rows.length;
  try {
    if (size > 0) {
      const page = await ask(`/v1/results/${here.handle}?offset=${offset}&limit=${size}`);
      here.rows = isBefore ? [...page.data, ...here.rows] : [...here.rows, ...page.data];
      here.offset = isBefore ? offset : 0;
    }
    here.limit += STEP;
    if (here === table) loaded();
    announce(`Shown: ${byId("count").textContent}.`);
  } catch {
    byId("remark").textContent = "The other rows could not be loaded. Call again.";
  }
}

byId("more").addEventListener("click", showMore);
