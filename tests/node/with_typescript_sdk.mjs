// The Model Context Protocol's TypeScript SDK; see tests/clients/program.py.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { inspect } from "node:util";

const DEADLINE_MS = 60_000;
const COIN = { name: "get_coin", arguments: { uuid: "Qwsogvtv82FCd" } };
const HISTORY = {
  name: "stock_zh_a_hist",
  arguments: { symbol: "000001", start_date: "20240102" },
};
const ORDER = { name: "call_tool", arguments: COIN };
const WRONG = { name: "get_coin", arguments: { uuid: "Qwsogvtv82FCd", rows: 1 } };

const [url, key] = process.argv.slice(2);

async function connected(path, key) {
  const client = new Client({ name: "finport-tests", version: "1.0.0" });
  const requestInit = { headers: { Authorization: `Bearer ${key}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(url + path), { requestInit }));
  return client;
}

async function listed(client) {
  const names = [];
  let cursor;
  do {
    const page = await client.listTools({ cursor });
    names.push(...page.tools.map((tool) => tool.name));
    cursor = page.nextCursor;
  } while (cursor);
  return names;
}

async function call(client, request) {
  const { content, isError } = await client.callTool(request);
  return { text: content[0].text, isError: isError ?? false };
}

setTimeout(() => {
  throw new Error(`not done after ${DEADLINE_MS} ms`);
}, DEADLINE_MS).unref();

const all = await connected("/mcp?tools=all", key);
const few = await connected("/mcp", key);
const names = await listed(all);
const answers = [await call(all, COIN), await call(all, HISTORY), await call(few, ORDER)];
const refused = await call(all, WRONG);
const wrongKey = await connected("/mcp", "fp_wrong").then(() => "", inspect);
await Promise.all([all.close(), few.close()]);

process.stdout.write(
  JSON.stringify({
    listed: names,
    called: answers.filter((answer) => !answer.isError).map((answer) => answer.text),
    error: refused.isError ? refused.text : "",
    wrong_key: wrongKey,
  }),
);
