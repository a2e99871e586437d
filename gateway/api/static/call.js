// The form of a tool: reads its fields as arguments, writes them into the address and a command,
// and makes the call.

import { show } from "./answer.js";
import { announce, ask, byId, hasKey } from "./page.js";

const NO_ANSWER = {
  ok: false,
  error: {
    code: "no_answer",
    message: "The gateway did not answer.",
    fault: "gateway",
    retryable: true,
  },
};

const form = byId("call");
const controls = [...form.querySelectorAll("[data-type]")];

// Returns the value of a control as text; null if it is empty or the default.
function said(control) {
  const text = control.type === "checkbox" ? String(control.checked) : control.value;
  const preset = control.dataset.default;
  const nothing = control.options ? [preset ?? ""] : ["", preset];
  return nothing.includes(text) ? null : text;
}

function write(values) {
  for (const control of controls) {
    const preset = control.dataset.default;
    const text = values.get(control.name);
    if (control.type === "checkbox") control.checked = (text ?? preset) === "true";
    else control.value = text ?? (control.options && preset) ?? "";
  }
}

const given = () =>
  controls.flatMap((control) => {
    const text = said(control);
    return text === null ? [] : [[control.name, text, control.dataset.type]];
  });

function typed(text, type) {
  if (type === "boolean") return text === "true";
  if (type === "array" || type === "object") {
    try {
      return JSON.parse(text);
    } catch {
      return text; // the gateway says what is wrong with it
    }
  }
  return type === "string" ? text : Number(text);
}

function request() {
  const rows = byId("max-rows").value;
  const headers = { "Content-Type": "application/json" };
  if (byId("anew").checked) headers["Cache-Control"] = "no-cache";
  const values = given().map(([name, text, type]) => [name, typed(text, type)]);
  return {
    url: form.getAttribute("action") + (rows && `?max_rows=${rows}`),
    headers,
    body: JSON.stringify(Object.fromEntries(values)),
  };
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function showCurl() {
  const { url, headers, body } = request();
  const heads = Object.entries(headers).map((head) => `-H ${quoted(head.join(": "))}`);
  if (hasKey()) heads.push('-H "Authorization: Bearer $GATEWAY_KEY"');
  const parts = ["curl -s", quoted(location.origin + url), ...heads, "-d", quoted(body)];
  byId("curl").textContent = parts.join(" ");
}

function keep() {
  const hash = new URLSearchParams(given().map(([name, text]) => [name, text]));
  history.replaceState(null, "", hash.size ? `#${hash}` : location.pathname);
  showCurl();
}

function read() {
  if (location.hash.length > 1) write(new URLSearchParams(location.hash.slice(1)));
  showCurl();
}

// Shows the problems of arguments beside their fields.
function mark(problems) {
  const wrong = controls.filter((control) => {
    const found = problems.find(({ argument }) => argument === control.name);
    const text = found ? [found.problem, found.expected].filter(Boolean).join("; ") : "";
    byId(`${control.id}-problem`).textContent = text;
    control.setAttribute("aria-invalid", text !== "");
    return text !== "";
  });
  wrong[0]?.focus();
}

async function send() {
  const button = byId("send");
  if (button.hasAttribute("aria-disabled")) return;
  button.setAttribute("aria-disabled", "true");
  button.textContent = "Calling…";
  mark([]);
  const { url, headers, body } = request();
  const envelope = await ask(url, { method: "POST", headers, body }).catch(() => NO_ANSWER);
  button.removeAttribute("aria-disabled");
  button.textContent = "Call";
  show(envelope);
  mark(envelope.error?.details?.problems ?? []);
}

async function copy({ target: button }) {
  getSelection().selectAllChildren(byId("curl")); // to copy by keyboard if the page may not copy
  try {
    await navigator.clipboard.writeText(byId("curl").textContent);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Press Ctrl+C";
  }
  announce(button.textContent);
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
form.addEventListener("input", keep);
byId("copy").addEventListener("click", copy);
document.addEventListener("key", showCurl);
addEventListener("hashchange", read);
read();
