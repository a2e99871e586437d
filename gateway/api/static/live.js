// Shows the state of the gateway and polls it while the page is visible. A screen reader announces
// problems, but not every count.

import { duration } from "./duration.js";
import { announce, ask, byId, el, number, words } from "./page.js";

const POLL_MS = 2000;
const KEPT = ["cached", "stale", "replayed"];
const ANSWERED = [...KEPT, "live", "simulated"];

let timer = null;
let opened = null; // the hosts whose breakers are not closed

async function poll() {
  clearTimeout(timer);
  if (document.hidden) return;
  try {
    const health = await ask("/healthz", { cache: "no-store" });
    if (health.calls === undefined) tell("Live counters need the API key.");
    else show(health);
  } catch {
    tell("The gateway does not answer.");
  }
  clearTimeout(timer);
  timer = setTimeout(poll, POLL_MS);
}

function tell(text) {
  const unwell = byId("unwell");
  if (unwell.textContent === text) return;
  unwell.textContent = text;
  byId("vitals").classList.toggle("old", text !== "");
  announce(text || "The gateway answers again.");
}

function show({ status, calls, pending, uptime_s: uptime, hosts }) {
  const sum = (names) => names.reduce((n, name) => n + (calls[name] ?? 0), 0);
  const answered = sum(ANSWERED);
  const vitals = {
    calls: number(sum(Object.keys(calls))),
    cached: answered ? `${number((100 * sum(KEPT)) / answered)} %` : "–",
    pending: number(pending),
    uptime: duration(Math.floor(uptime)),
  };
  for (const [name, text] of Object.entries(vitals)) byId(`vital-${name}`).textContent = text;
  tell(status === "ok" ? "" : `The gateway says of itself: ${status}.`);
  showCalls(Object.entries(calls).sort((a, b) => b[1] - a[1]));
  showHosts(Object.entries(hosts));
}

function showCalls(calls) {
  byId("no-calls").hidden = calls.length > 0;
  byId("outcomes").replaceChildren(
    ...calls.map(([name, count]) => {
      const kind = ANSWERED.includes(name) ? "good" : "failed";
      const line = el("li", { class: `row ${kind}` }, words(name));
      line.append(el("b", { class: "last" }, number(count)));
      line.style.setProperty("--share", count / calls[0][1]);
      return line;
    }),
  );
}

function showHosts(hosts) {
  const weight = ([, host]) =>
    (host.breaker === "closed" ? 0 : 1e9) + host.in_flight + host.waiting;
  hosts.sort((a, b) => weight(b) - weight(a));
  byId("no-hosts").hidden = hosts.length > 0;
  byId("hosts").parentNode.hidden = hosts.length === 0;
  byId("hosts").replaceChildren(
    ...hosts.map(([name, { in_flight: inFlight, waiting, breaker }]) => {
      const state = el(
        "td",
        {},
        el("span", { class: breaker === "closed" ? null : "red" }, words(breaker)),
      );
      const counts = [inFlight, waiting].map((count) => el("td", {}, number(count)));
      return el("tr", {}, el("th", { scope: "row" }, name), ...counts, state);
    }),
  );
  const failing = hosts.filter(([, { breaker }]) => breaker !== "closed");
  const text = failing.map(([name, { breaker }]) => `${name}: ${words(breaker)}`).join(", ");
  if (opened !== null && text !== opened) announce(`Breakers: ${text || "all closed"}.`);
  opened = text;
}

document.addEventListener("visibilitychange", poll);
document.addEventListener("key", poll);
poll();
