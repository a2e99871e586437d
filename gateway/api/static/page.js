// Functions that all pages share: build nodes, announce text, hold the API key, call the gateway.
//
// Text from a caller, a manifest or an upstream only becomes a text node or the value of a form's
// field: no string becomes markup. The API key stays in this tab.

const KEY = "finport.key";

export const byId = (id) => document.getElementById(id);

export const el = (tag, attributes = {}, ...children) =>
  filled(document.createElement(tag), attributes, children);

export const svg = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

// Announces a visible change to a screen reader.
export function announce(text) {
  byId("announcer").textContent = text;
}

export const number = (value, digits = 0) =>
  value.toLocaleString("en", { maximumFractionDigits: digits });

export const plural = (count, one) => `${number(count)} ${one}${count === 1 ? "" : "s"}`;

export const words = (text) => String(text).replaceAll("_", " ");

// If the browser forbids storage, the key is lost when the page is left.
const store = (() => {
  try {
    return sessionStorage;
  } catch {
    return {};
  }
})();

export const hasKey = () => KEY in store;

// Returns the gateway's answer as JSON. Opens the key field if the gateway requires a key. Throws
// if there is no answer.
export async function ask(url, options = {}) {
  const headers = hasKey()
    ? { ...options.headers, Authorization: `Bearer ${store[KEY]}` }
    : options.headers;
  const response = await fetch(url, { ...options, headers });
  if (response.status === 401) {
    byId("key-problem").textContent = hasKey()
      ? "This gateway does not know that key."
      : "This gateway wants an API key.";
    byId("key").togglePopover(true);
  }
  return response.json();
}

function showKey() {
  byId("key-open").textContent = hasKey() ? "API key set" : "API key";
  byId("key-forget").hidden = !hasKey();
}

function keyChanged(text) {
  byId("key-value").value = "";
  byId("key-problem").textContent = "";
  byId("key").togglePopover(false);
  showKey();
  announce(text);
  document.dispatchEvent(new Event("key"));
}

byId("key").addEventListener("toggle", ({ newState }) => {
  if (newState === "open") byId("key-value").focus();
});
byId("key").addEventListener("submit", (event) => {
  event.preventDefault();
  store[KEY] = byId("key-value").value;
  keyChanged("The key is set.");
});
byId("key-forget").addEventListener("click", () => {
  delete store[KEY];
  keyChanged("The key is forgotten.");
});
showKey();
