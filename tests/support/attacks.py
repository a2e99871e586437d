"""Ways into a gateway with keys, as bytes on a connection, and how each of them is to end.

`<bob>` and the like stand for the keys of clients. An end is the status and the error code of each
answer; `closed` is a connection that closes without one.
"""

import gzip
import json
import zlib
from dataclasses import dataclass

MiB = 2**20


@dataclass(frozen=True)
class Way:
    """One way in. `hides` may not stand in any answer to it."""

    name: str
    sent: bytes
    ends: str
    hides: bytes = b"<bob>"


def ask(
    target: str = "/v1/tools?limit=1",
    *head: str,
    method: str = "GET",
    key: str | None = "<bob>",
    host: str | None = "localhost",
    body: bytes | None = None,
    version: str = "1.1",
) -> bytes:
    lines = [f"{method} {target} HTTP/{version}", "Connection: close"]
    lines += [f"Host: {host}"] if host is not None else []
    lines += [f"Authorization: Bearer {key}"] if key is not None else []
    lines += [f"Content-Length: {len(body)}"] if body is not None else []
    return "\r\n".join([*lines, *head, "\r\n"]).encode("latin-1") + (body or b"")


def call(
    arguments: bytes = b'{"uuid":"x"}',
    *head: str,
    tool: str = "get_coin",
    key: str | None = "<bob>",
    host: str | None = "localhost",
) -> bytes:
    return ask(f"/v1/tools/{tool}", *head, method="POST", key=key, host=host, body=arguments)


def batch(*lines: bytes, key: str = "<bob>", head: tuple[str, ...] = ()) -> bytes:
    return ask("/v1/calls", *head, method="POST", key=key, body=b"\n".join(lines))


def mcp(name: str, arguments: dict[str, object], key: str, tools: str = "search") -> bytes:
    params = {"name": name, "arguments": arguments}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return message(json.dumps(asked).encode(), key, tools)


def message(body: bytes, key: str = "<bob>", tools: str = "search", head: str = "X: x") -> bytes:
    return ask(f"/mcp?tools={tools}", head, method="POST", key=key, body=body)


def once(request: bytes) -> bytes:
    """A request behind which its connection stays open."""
    return request.replace(b"Connection: close\r\n", b"", 1)


def posted(*head: str, body: bytes = b"") -> bytes:
    """A call whose head says itself how long its body is, and a second request behind it."""
    start = once(ask("/v1/tools/get_coin", *head, method="POST"))
    return start + body + ask("/readyz", "X-Request-Id: smuggled")


def bomb() -> bytes:
    """A gigabyte of zeros, as gzip of less than the largest body."""
    packer = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    block = packer.compress(bytes(MiB)) + packer.flush(zlib.Z_FULL_FLUSH)
    return gzip.compress(b"")[:10] + block * 1_000


GZIP = "Content-Encoding: gzip"
CHUNKED = "Transfer-Encoding: chunked"
COIN = b'{"tool":"get_coin","arguments":{"uuid":"x"}}'
PACKED = gzip.compress(b'{"uuid":"x"}')
ORIGIN = ("/v1/tools?limit=1", "Origin: ")

UNKNOWN = "401 unauthorized"
FOREIGN = "403 forbidden"
GARBAGE = "400 invalid_request"

KEYS = (
    Way("no key", call(key=None), UNKNOWN),
    Way("no key, batch", ask("/v1/calls", method="POST", key=None, body=b"{}"), UNKNOWN),
    Way("no key, MCP", ask("/mcp", method="POST", key=None, body=b"{}"), "401 -32010"),
    Way("no key, figures", ask("/metrics", key=None), UNKNOWN),
    Way("no key, rows of a table", ask("/v1/results/0", key=None), UNKNOWN),
    Way("no key, what is not served", ask("/nowhere", key=None), UNKNOWN),
    Way("no key, details of health", ask("/healthz", key=None), '200 {"status":"ok"}'),
    Way("empty key", call(key=""), UNKNOWN),
    Way("wrong key", call(key="wrong"), UNKNOWN),
    Way("key cut short", call(key="<bob").replace(b"<bob", b"<short>"), UNKNOWN),
    Way("key of another gateway", call(key="<stranger>"), UNKNOWN, b"<stranger>"),
    Way("hash of a key", call(key="<hash>"), UNKNOWN, b"<hash>"),
    Way("key under another scheme", call(b"{}", "Authorization: Basic <bob>", key=None), UNKNOWN),
    Way("key without a scheme", call(b"{}", "Authorization: <bob>", key=None), UNKNOWN),
    Way("two keys", call(b"{}", "Authorization: Bearer wrong"), UNKNOWN),
    Way("two keys, one as x-api-key", call(b"{}", "X-Api-Key: wrong"), UNKNOWN),
    Way("wrong key as x-api-key", call(b"{}", "X-Api-Key: <stranger>", key=None), UNKNOWN),
    Way("key in the query", ask("/v1/tools?api_key=<bob>", key=None), UNKNOWN),
    Way("key in a cookie", call(b"{}", "Cookie: key=<bob>", key=None), UNKNOWN),
    Way("key in the query beside the right one", ask("/v1/tools?key=<bob>"), GARBAGE),
    Way("key of 7,000 bytes", call(key="k" * 7_000), UNKNOWN),
    Way("key of 20,000 bytes", call(key="<bob>" + "k" * 20_000), GARBAGE),
    Way("key of no ASCII", call(key="sch\xfcssel"), UNKNOWN),
    Way("key with a line feed", call(key="<bob>\nX-Admin: 1"), GARBAGE),
    Way("key with a carriage return", call(key="<bob>\rX-Admin: 1"), GARBAGE),
    Way("key with a NUL", call(key="<bob>\0"), GARBAGE),
)

TOOLS = (
    Way("tool out of scope", call(key="<narrow>"), FOREIGN, b"<narrow>"),
    Way("the same, batch", batch(COIN, key="<narrow>"), "200 forbidden"),
    Way("the same, MCP", mcp("get_coin", {"uuid": "x"}, "<narrow>", "all"), "200 forbidden"),
    Way(
        "the same, MCP through call_tool",
        mcp("call_tool", {"name": "get_coin", "arguments": {"uuid": "x"}}, "<narrow>"),
        "200 forbidden",
    ),
    Way("tool that MCP did not offer", mcp("get_coin", {}, "<bob>"), "200 invalid_request"),
    Way("tool that MCP does not know", mcp("get_cion", {}, "<bob>"), "200 -32602"),
    Way("transactional tool", call(b"{}", tool="generate_wallet"), FOREIGN),
    Way("the same, batch", batch(b'{"tool":"generate_wallet"}'), "200 forbidden"),
    Way("the same, MCP", mcp("generate_wallet", {}, "<bob>", "all"), "200 forbidden"),
    Way(
        "the same, MCP through call_tool",
        mcp("call_tool", {"name": "generate_wallet"}, "<bob>"),
        "200 forbidden",
    ),
    Way(
        "more calls a second",
        once(call(key="<rare>")) + call(key="<rare>"),
        "200, 429 rate_limited",
    ),
    Way("rows under a handle made up", ask(f"/v1/results/{'0' * 32}-{'0' * 16}"), "404 not_found"),
)

SITES = (
    *(
        Way(f"Host {host[:40]}", call(host=host), FOREIGN)
        for host in (
            *("evil.example", "rebind.example:8765", "localhost.evil.example", "evil.localhost"),
            *("127.0.0.1.evil.example", "user@localhost", "localhost@evil.example", "", "."),
            *("localhost:", "localhost:80:80", "localhost:80.evil", "[::1].evil", "[evil]", "::1"),
            *("2130706433", "0x7f.1", "127.1", "localhost,evil.example", "loc\xe4lhost", "*"),
        )
    ),
    Way("no Host", call(host=None), GARBAGE),
    Way("no Host, HTTP/1.0", ask(host=None, version="1.0"), FOREIGN),
    Way("two Hosts", call(b"{}", "Host: evil.example"), GARBAGE),
    *(
        Way(f"Origin {origin}", ask(ORIGIN[0], ORIGIN[1] + origin, host="localhost:8765"), FOREIGN)
        for origin in (
            *("http://evil.example", "null", "", "http://localhost", "http://localhost:8766"),
            *("http://127.0.0.1:8765", "http://evil@localhost:8765", "http://localhost:8765/x"),
            *("ftp://localhost:8765", "localhost:8765", "https://app.example.evil", "*"),
        )
    ),
    Way("two Origins", ask("/readyz", "Origin: http://localhost", "Origin: http://x"), FOREIGN),
    Way(
        "preflight of a foreign page",
        ask(
            "/v1/tools/get_coin",
            *("Origin: http://evil.example", "Access-Control-Request-Method: POST"),
            method="OPTIONS",
            key=None,
        ),
        FOREIGN,
        b"Access-Control",
    ),
)

SIZES = (
    Way("body too large", call(b" " * (MiB + 1)), "413 too_large"),
    Way(
        "body too large, length unsaid",
        ask("/v1/tools/get_coin", CHUNKED, method="POST")
        + b"".join(b"%x\r\n%b\r\n" % (2**16, b" " * 2**16) for _ in range(17))
        + b"0\r\n\r\n",
        "413 too_large",
    ),
    Way("body of 10^30 bytes announced", posted(f"Content-Length: 1{'0' * 30}"), GARBAGE),
    Way("batch with a line too long", batch(COIN, b" " * (MiB + 1)), "200 too_large"),
    Way("batch array too large", batch(b"[" + b" " * MiB), "413 too_large"),
    Way("header of 9,000 bytes", ask("/readyz", "X: " + "x" * 9_000), GARBAGE),
    Way("header name of 9,000 bytes", ask("/readyz", "x" * 9_000 + ": x"), GARBAGE),
    Way("200 headers", ask("/readyz", *(f"X-{n}: x" for n in range(200))), GARBAGE),
    Way("path of 9,000 bytes", ask("/" + "x" * 9_000), GARBAGE),
    Way("gzip of 1 GB", call(bomb(), GZIP), "413 too_large"),
    Way("gzip of 1 GB, batch", batch(bomb(), head=(GZIP,)), "413 too_large"),
    Way("gzip that is none", call(b'{"uuid":"x"}', GZIP), GARBAGE),
    Way("gzip that is none, batch", batch(b"{}", head=(GZIP,)), GARBAGE),
    Way("gzip that is none, unread", ask("/readyz", GZIP, body=b"{}"), '200 {"status":"ready"}'),
    Way("gzip cut short", call(PACKED[:-9], GZIP), GARBAGE),
    Way("gzip with a wrong checksum", call(PACKED[:-8] + b"\0" * 8, GZIP), GARBAGE),
    Way("gzip with something behind it", call(PACKED + b"{}", GZIP), GARBAGE),
    Way("gzip in gzip", call(gzip.compress(PACKED), GZIP), GARBAGE),
    Way("Brotli", call(b"{}", "Content-Encoding: br"), GARBAGE),
)

HTTP = (
    Way("two lengths of one kind", posted("Content-Length: 2", "Content-Length: 2"), GARBAGE),
    Way("length and chunks", posted("Content-Length: 4", CHUNKED, body=b"0\r\n\r\n"), GARBAGE),
    *(
        Way(f"smuggled behind {head[:40]!r}", posted(head, body=b"0\r\n\r\n"), GARBAGE)
        for head in (
            *("Content-Length: 5, 5", "Content-Length: +5", "Content-Length: 0x5"),
            *("Content-Length: -1", "Content-Length : 5", "Content-Length: 5\r\n folded"),
            *("Transfer-Encoding: xchunked", "Transfer-Encoding: chunked, identity"),
            *("Transfer-Encoding : chunked", "Transfer-Encoding:\x0bchunked"),
            *("Transfer-Encoding: chunked\r\n folded", f"{CHUNKED}\r\n{CHUNKED}"),
        )
    ),
    Way("chunk that is none", posted(CHUNKED, body=b"zz\r\n"), GARBAGE),
    Way("chunk of 2^64 bytes", posted(CHUNKED, body=b"1" + b"0" * 16 + b"\r\n"), GARBAGE),
    Way("chunk that ends late", posted(CHUNKED, body=b"1\r\nxx\r\n0\r\n\r\n"), GARBAGE),
    Way("absolute form", ask("http://evil.example/v1/tools"), GARBAGE),
    Way("absolute form, own name", ask("http://localhost/v1/tools"), GARBAGE),
    Way("CONNECT", ask("localhost:80", method="CONNECT"), GARBAGE),
    Way("OPTIONS *", ask("*", method="OPTIONS"), GARBAGE),
    Way("TRACE", ask("/v1/tools", "X-Secret: seen", method="TRACE"), "405 method_not_allowed"),
    Way("DELETE", ask("/v1/tools/get_coin", method="DELETE"), "405 method_not_allowed"),
    Way("unknown method", ask("/v1/tools", method="BREW"), GARBAGE),
    Way("WebSocket", ask("/mcp", "Upgrade: websocket"), "405 -32010", b"101 "),
    Way("HTTP/0.9", b"GET /v1/tools\r\n\r\n", FOREIGN),
    Way("HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", GARBAGE),
    Way("HTTP/9.9", ask(version="9.9"), GARBAGE),
    Way("TLS", bytes.fromhex("16030100a5010000a10303") + bytes(99), GARBAGE),
    Way("nothing that ends", b"x" * 100_000, GARBAGE),
    Way("unknown expectation", ask("/readyz", "Expect: tea"), GARBAGE),
    Way("control character in a header", ask("/readyz", "X: \x01"), GARBAGE),
    Way("name of a header with a blank", ask("/readyz", "X Y: 1"), GARBAGE),
)

TARGETS = (
    *(
        Way(f"path {path}", ask(path), "404 not_found")
        for path in (
            *("/static/../../etc/passwd", "/static/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd"),
            *("/v1/tools/%2e%2e/%2e%2e/etc/passwd", "/v1/results/..", "/v1/results/%2e%2e%2fx"),
            *("/docs/../../pyproject.toml", "/docs/%00", "/%ff%00%0a", "/..%5c..%5cwindows"),
        )
    ),
    Way("path with a NUL", ask("/v1/tools/\0"), GARBAGE),
    Way("path of no ASCII", ask("/v1/tools/\xff"), GARBAGE),
    Way("name with a NUL", call(tool="get_coin%00"), "404 unknown_tool"),
    Way("name with a line feed", call(tool="get_coin%0d%0aX-Evil:%201"), "404 unknown_tool"),
    Way("name that is half a character", call(tool="%ed%a0%80"), "404 unknown_tool"),
    Way("unknown query", ask("/v1/tools?admin=1"), GARBAGE),
    Way("query twice", ask("/v1/tools?limit=1&limit=1000"), GARBAGE),
    Way("unknown query, MCP", ask("/mcp?admin=1", method="POST", body=b"{}"), "400 -32010"),
    Way("request id with more in it", ask("/readyz", "X-Request-Id: a<b>"), "200", b"a<b>"),
    Way("request id with a line feed", ask("/readyz", "X-Request-Id: a\nX-Evil: 1"), GARBAGE),
    Way("client with a line feed", ask("/readyz", "X-Finport-Client: a\nX-Evil: 1"), GARBAGE),
)

DEEP = 100_000

BODIES = (
    *(
        Way(name, call(body), GARBAGE)
        for name, body in (
            (f"JSON {DEEP} deep", b'{"uuid":' + b"[" * DEEP + b"]" * DEEP + b"}"),
            ("JSON without an end", b"[" * DEEP),
            ("number of 5,000 digits", b'{"uuid":' + b"9" * 5_000 + b"}"),
            ("number beyond all", b'{"uuid":1e999}'),
            ("NaN", b'{"uuid":NaN}'),
            ("half a character, escaped", b'{"uuid":"\\ud800"}'),
            ("half a character", b'{"uuid":"\xed\xa0\x80"}'),
            ("no UTF-8", b'{"uuid":"\xff"}'),
            ("no object", b"[]"),
        )
    ),
    Way("path as an argument", call(b'{"uuid":".."}'), "422 invalid_arguments"),
    Way("argument that nobody takes", call(b'{"uuid":"x","host":"evil"}'), "422 invalid_arguments"),
    Way("batch id of a wrong type", batch(b'{"id":[],"tool":"get_coin"}'), "200 invalid_request"),
    Way("batch line that is no call", batch(b'{"tool":1}'), "200 invalid_request"),
    Way("batch array without an end", batch(b"[" * DEEP), GARBAGE),
    Way(
        "MCP id of a wrong type",
        message(b'{"jsonrpc":"2.0","id":{},"method":"ping"}'),
        "400 -32600",
    ),
    Way("MCP without an end", message(b"[" * DEEP), "400 -32700"),
)

WAYS = (*KEYS, *TOOLS, *SITES, *SIZES, *HTTP, *TARGETS, *BODIES)
