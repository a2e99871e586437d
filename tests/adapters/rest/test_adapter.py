"""HTTP APIs: credentials, answers, faults and where connections may go."""

import asyncio
import base64
import gzip
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import resolver, web
from aiohttp.abc import ResolveResult

from cache import CacheControl
from gateway import CallContext, Gateway, GatewaySettings
from tests.support.upstreams import upstream

pytestmark = pytest.mark.anyio

SECRET = "planted-key-4711"  # noqa: S105 - no real one
FRESH = CallContext(cache=CacheControl(no_cache=True))

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def document(url: str, operation: dict[str, Any], **schemes: object) -> dict[str, Any]:
    method = operation.pop("method", "get")
    return {
        "openapi": "3.1.0",
        "info": {"title": "T", "version": "1"},
        "servers": [{"url": url}],
        "components": {"securitySchemes": schemes},
        "paths": {"/x": {method: {"operationId": "x", **operation}}},
    }


@asynccontextmanager
async def gateway_of(
    folder: Path, said: dict[str, Any], provider: dict[str, Any] | None = None, **settings: Any
) -> AsyncIterator[Gateway]:
    file = folder / "document.json"
    file.write_text(json.dumps(said))
    chosen = GatewaySettings(
        catalog="none",
        providers={"acme": {"openapi": str(file), **(provider or {})}},
        cache_dir=folder / "cache",
        **{"allow_transactional": True, "retries": 0, **settings},
    )
    async with Gateway.open(chosen) as gateway:
        yield gateway


def holds(folder: Path, text: bytes) -> bool:
    """Whether a file in a folder holds a text."""
    return any(text in file.read_bytes() for file in folder.rglob("*") if file.is_file())


API_KEY = {"type": "apiKey", "in": "header", "name": "X-Key"}
IN_QUERY = {"type": "apiKey", "in": "query", "name": "key"}
IN_COOKIE = {"type": "apiKey", "in": "cookie", "name": "sid"}
BEARER = {"type": "http", "scheme": "bearer"}
BASIC = {"type": "http", "scheme": "basic"}


@pytest.mark.parametrize(
    ("scheme", "value", "place", "sent"),
    [
        (API_KEY, SECRET, "X-Key", SECRET),
        (IN_QUERY, f"{SECRET}&x=1", "query", f"key={SECRET}%26x%3D1"),
        (IN_COOKIE, SECRET, "Cookie", f"sid={SECRET}"),
        (BEARER, SECRET, "Authorization", f"Bearer {SECRET}"),
        (
            BASIC,
            f"me:{SECRET}",
            "Authorization",
            "Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode(),
        ),
    ],
)
async def test_a_credential_goes_where_its_scheme_says_and_never_comes_back(
    scheme: dict[str, str],
    value: str,
    place: str,
    sent: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    got: list[str] = []
    status = 200

    async def echo(request: web.Request) -> web.StreamResponse:
        got.append(request.query_string if place == "query" else request.headers.get(place, ""))
        return web.json_response({"message": f"you sent {got[-1]} and {value}"}, status=status)

    monkeypatch.setenv("ACME_KEY", value)
    traced: list[Any] = []

    class Kept:
        full = blocked = False
        failure = None

        def put(self, record: Any) -> None:
            traced.append(record)

    async with upstream(echo) as url:
        said = document(url, {"security": [{"s": []}]}, s=scheme)
        async with gateway_of(tmp_path, said, {"credentials": {"s": "ACME_KEY"}}) as gateway:
            gateway._trace = Kept()  # type: ignore[assignment]
            answer = await gateway.call("x", {})
            assert answer.ok, answer.message
            status = 400
            refused = await gateway.call("x", {}, FRESH)
    assert got == [sent, sent]
    assert refused.message is not None
    assert "the upstream refused the call (400): you sent" in refused.message
    for text in (str(answer.value), refused.message, repr(traced), caplog.text):
        assert SECRET not in text
        assert base64.b64encode(f"me:{SECRET}".encode()).decode() not in text
    assert "***" in str(answer.value)
    assert not holds(tmp_path, SECRET.encode())


async def test_a_variable_that_is_not_set_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_: web.Request) -> web.StreamResponse:
        raise AssertionError

    async with upstream(never) as url:
        said = document(url, {"security": [{"s": []}]}, s=API_KEY)
        async with gateway_of(tmp_path, said) as gateway:
            lacking = await gateway.call("x", {})
            assert (lacking.code, lacking.message) == (
                "not_configured",
                f"{url[7:]} wants a credential (s); name the environment variable that holds it: "
                'credentials = {"s" = "VARIABLE"} in the provider acme',
            )
        named = {"credentials": {"s": "ACME_KEY"}}
        async with gateway_of(tmp_path, said, named) as gateway:
            monkeypatch.delenv("ACME_KEY", raising=False)
            unset = await gateway.call("x", {})
            assert unset.code == "not_configured"
            assert "the environment variable ACME_KEY is not set" in (unset.message or "")
            monkeypatch.setenv("ACME_KEY", "ä\nb")
            odd = await gateway.call("x", {})
            assert "ACME_KEY holds a character that no header can carry" in (odd.message or "")


async def test_a_credential_that_no_tool_needs_is_refused(tmp_path: Path) -> None:
    said = document("https://api.example.com", {"security": [{"apiKey": []}]}, apiKey=API_KEY)
    with pytest.raises(Exception, match="needs the credential 'apikey'; did you mean apiKey"):
        async with gateway_of(tmp_path, said, {"credentials": {"apikey": "X"}}):
            pass


def oauth(url: str) -> dict[str, Any]:
    flows = {"clientCredentials": {"tokenUrl": f"{url}/token", "scopes": {"a": "", "b": ""}}}
    return {"type": "oauth2", "flows": flows}


async def test_a_token_is_fetched_once_shared_and_replaced_after_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_CLIENT", "us er:" + SECRET)
    asked: list[tuple[str, str]] = []
    valid = {"token-1"}
    life: float = 3600

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/token":
            await asyncio.sleep(0.05)
            asked.append((request.headers["Authorization"], await request.text()))
            return web.json_response(
                {"access_token": f"token-{len(asked)}", "expires_in": life, "token_type": "Bearer"}
            )
        token = request.headers["Authorization"].removeprefix("Bearer ")
        return web.json_response({"token": token}, status=200 if token in valid else 401)

    async with upstream(answer) as url:
        said = document(url, {"security": [{"s": ["a", "b"]}]}, s=oauth(url))
        async with gateway_of(tmp_path, said, {"credentials": {"s": "ACME_CLIENT"}}) as gateway:
            contexts = [CallContext(cache=CacheControl(no_cache=True)) for _ in range(8)]
            many = await asyncio.gather(*(gateway.call("x", {}, c) for c in contexts))
            assert all(one.ok for one in many)
            assert many[0].value == {"token": "***"}
            basic = base64.b64encode(f"us+er:{SECRET}".encode()).decode()
            assert asked == [(f"Basic {basic}", "grant_type=client_credentials&scope=a+b")]
            valid.clear()
            valid.add("token-2")
            assert (await gateway.call("x", {}, FRESH)).ok
            assert len(asked) == 2, "fetched anew after the refusal"
            valid.clear()
            refused = await gateway.call("x", {}, FRESH)
            assert refused.code == "not_configured"
            assert "does not accept the credential in ACME_CLIENT (401)" in (refused.message or "")
            assert len(asked) == 3, "and only once"
            life = 0.01
            valid |= {"token-4", "token-5", "token-6"}
            assert (await gateway.call("x", {}, FRESH)).ok
            await asyncio.sleep(0.02)
            assert (await gateway.call("x", {}, FRESH)).ok
            assert len(asked) >= 5, "a token that has expired is not sent"


@pytest.mark.parametrize(
    ("status", "body", "code", "text"),
    [
        (401, {"error": "invalid_client", "error_description": SECRET}, "not_configured",
         "gives no token for the client in ACME_CLIENT: invalid_client: ***"),
        (200, {"token": "x"}, "upstream_invalid", "answered without an access_token"),
        (503, {}, "upstream_error", "the upstream answered 503"),
    ],
)  # fmt: skip
async def test_a_token_that_is_not_given_is_the_error(
    status: int,
    body: dict[str, str],
    code: str,
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ACME_CLIENT", f"user:{SECRET}")

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=status)

    async with upstream(answer) as url:
        said = document(url, {"security": [{"s": []}]}, s=oauth(url))
        async with gateway_of(tmp_path, said, {"credentials": {"s": "ACME_CLIENT"}}) as gateway:
            result = await gateway.call("x", {})
    assert (result.code, text in (result.message or "")) == (code, True), result.message


REFUSALS: list[tuple[int, dict[str, str], str, str, str]] = [
    (400, {}, '{"detail": [{"msg": "date is wrong"}]}', "upstream_error", "(400): date is wrong"),
    (404, {}, '{"message": "no such ticker"}', "upstream_error", "(404): no such ticker"),
    (422, {"Content-Type": "text/plain"}, "bad limit", "upstream_error", "(422): bad limit"),
    (401, {}, "{}", "not_configured", "refuses calls without a credential (401)"),
    (403, {}, '{"error": "no plan"}', "not_configured", "(403): no plan"),
    (503, {}, "", "upstream_error", "answered 503"),
    (302, {"Location": "http://10.0.0.1/"}, "", "upstream_error", "redirects are not followed"),
    (200, {"Content-Type": "text/html"}, "<html><title>Hi</title>", "upstream_invalid", "'Hi'"),
    (200, {"Content-Type": "image/png"}, "x", "upstream_invalid", "sent image/png, neither"),
    (200, {"Content-Type": "text/csv"}, "a,a\n1,2", "upstream_invalid", "a column twice"),
    (200, {"Content-Type": "text/csv"}, "a,b\n1", "upstream_invalid", "can't be read as a table"),
    (200, {}, '{"success": false, "error": "no data"}', "upstream_error", "no data"),
    (200, {}, "", "upstream_empty", "empty body"),
    (429, {"Retry-After": "7"}, "{}", "rate_limited", "answered 429"),
]


async def test_refusals_keep_the_words_of_the_upstream(tmp_path: Path) -> None:
    said = iter(REFUSALS)

    async def answer(_: web.Request) -> web.StreamResponse:
        status, headers, body, *_more = next(said)
        headers = {"Content-Type": "application/json", **headers}
        return web.Response(status=status, headers=headers, body=body.encode())

    async with (
        upstream(answer) as url,
        gateway_of(tmp_path, document(url, {}), breaker_attempts=10_000) as gateway,
    ):
        for *_given, code, text in REFUSALS:
            result = await gateway.call("x", {}, FRESH)
            assert (result.code, text in (result.message or "")) == (code, True), result.message
        assert result.error is not None
        assert result.error.retry_after_s == 7


MANY = [{"a": n} for n in range(9_000)]
ANSWERS: list[tuple[str, int, str, bytes, object, tuple[str, ...] | None]] = [
    ("get", 200, "application/json", b'[{"a": 1}, {"a": 2}]', [{"a": 1}, {"a": 2}], ("a",)),
    ("get", 200, "application/vnd.x+json", b'{"a": [1]}', {"a": [1]}, None),
    ("get", 200, "text/csv; charset=utf-8", b"day,rate\n2024-01-02,1.5\n",
     [{"day": "2024-01-02", "rate": "1.5"}], ("day", "rate")),
    ("get", 200, "text/plain", b"4.25", "4.25", None),
    ("get", 200, "application/xml", b"<rate>4</rate>", "<rate>4</rate>", None),
    ("delete", 204, "", b"", {"status": 204}, None),
    ("post", 202, "", b"", {"status": 202}, None),
    ("get", 200, "application/json", gzip.compress(b'{"a": 1}', mtime=0), {"a": 1}, None),
    ("get", 200, "application/json", json.dumps(MANY).encode(), MANY[:100], ("a",)),
]  # fmt: skip


async def test_answers_are_tables_or_documents(tmp_path: Path) -> None:
    given = iter(ANSWERS)

    async def answer(_: web.Request) -> web.StreamResponse:
        _method, status, type_, body, *_more = next(given)
        headers = {"Content-Type": type_} if type_ else {}
        if body[:2] == b"\x1f\x8b":
            headers["Content-Encoding"] = "gzip"
        return web.Response(status=status, headers=headers, body=body)

    async with upstream(answer) as url:
        said = document(url, {})
        said["paths"]["/x"] = {name: {"operationId": name} for name in ("get", "delete", "post")}
        async with gateway_of(tmp_path, said) as gateway:
            for method, *_given, value, columns in ANSWERS:
                result = await gateway.call(method, {}, FRESH)
                assert result.ok, result.message
                assert (result.value, result.columns) == (value, columns)


async def test_a_head_answers_with_what_it_says(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.method == "HEAD"
        return web.Response(headers={"ETag": '"1"', "Content-Length": "12", "X-Other": "x"})

    async with (
        upstream(answer) as url,
        gateway_of(tmp_path, document(url, {"method": "head"})) as gateway,
    ):
        result = await gateway.call("x", {})
    assert result.ok, result.message
    assert isinstance(result.value, dict)
    assert (result.value["status"], result.value["ETag"]) == (200, '"1"')
    assert "X-Other" not in result.value


async def test_only_a_tool_that_reads_is_asked_again(tmp_path: Path) -> None:
    asked = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(request.headers.get("Connection"))
        return web.json_response({}, status=503)

    async with upstream(answer) as url:
        said = document(url, {"method": "post"})
        async with gateway_of(tmp_path, said, retries=2) as gateway:
            assert (await gateway.call("x", {})).attempts == 1
        assert len(asked) == 1
        reads = {"intent": "informational"}
        said = document(url, {"method": "post"})
        async with gateway_of(tmp_path, said, reads, retries=2) as gateway:
            assert (await gateway.call("x", {})).attempts == 3
    assert len(asked) == 4


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Addresses by name, which each look-up takes in turn, as one who owns the name may do."""
    table: dict[str, list[str]] = {}

    async def resolve(
        _: object, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        if host not in table:
            raise OSError(f"no such name: {host}")
        address = table[host].pop(0) if len(table[host]) > 1 else table[host][0]
        return [
            ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)
        ]

    monkeypatch.setattr(resolver.DefaultResolver, "resolve", resolve)
    return table


async def ok(_: web.Request) -> web.StreamResponse:
    return web.json_response({"reached": True})


async def test_a_public_name_is_not_called_at_a_private_address(
    tmp_path: Path, names: dict[str, list[str]]
) -> None:
    said = document("http://api.example.com", {})
    async with gateway_of(tmp_path, said, breaker_attempts=10_000) as gateway:
        for address in (
            *("127.0.0.1", "10.1.2.3", "169.254.169.254", "192.168.0.1", "224.0.0.1", "0.0.0.0"),
            *("::1", "fd00::1", "::ffff:127.0.0.1", "64:ff9b::a00:1"),
        ):
            names["api.example.com"] = [address]
            result = await gateway.call("x", {}, FRESH)
            assert result.code == "upstream_invalid", address
            assert "has an address of a private network" in (result.message or "")
            assert address not in (result.message or "")


async def test_what_the_operator_names_or_allows_is_called(
    tmp_path: Path, names: dict[str, list[str]]
) -> None:
    async with upstream(ok) as url:
        port = url.rpartition(":")[2]
        for host in ("desk.internal", "desk", "desk.local", "localhost"):
            names[host] = ["127.0.0.1"]
            async with gateway_of(tmp_path, document(f"http://{host}:{port}", {})) as gateway:
                assert (await gateway.call("x", {}, FRESH)).ok, host
        names["api.example.com"] = ["127.0.0.1"]
        said = document(f"http://api.example.com:{port}", {})
        async with gateway_of(tmp_path, said, {"allow_private": True}) as gateway:
            assert (await gateway.call("x", {}, FRESH)).ok


async def test_a_name_that_changes_its_address_is_checked_at_each_connection(
    tmp_path: Path, names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first look-up tells a public address, on which nobody answers, each later one a private
    one: neither the first connection nor a later one goes there.
    """
    names["api.example.com"] = ["8.8.8.8", "127.0.0.1"]
    connected: list[str] = []

    async def refused(_: socket.socket, address: Any) -> None:
        connected.append(address[0])
        raise ConnectionRefusedError

    async with upstream(ok) as url:
        port = url.rpartition(":")[2]
        said = document(f"http://api.example.com:{port}", {})
        monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", refused)
        for code in ("upstream_unreachable", "upstream_invalid"):
            async with gateway_of(tmp_path, said) as gateway:
                assert (await gateway.call("x", {}, FRESH)).code == code
            assert names["api.example.com"] == ["127.0.0.1"], "looked up once a connection"
    assert connected == ["8.8.8.8"]


async def test_the_token_url_is_guarded_too(
    tmp_path: Path, names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_CLIENT", f"user:{SECRET}")
    names["login.example.com"] = ["127.0.0.1"]
    async with upstream(ok) as url:
        port = url.rpartition(":")[2]
        scheme = oauth(f"http://login.example.com:{port}")
        said = document(url, {"security": [{"s": []}]}, s=scheme)
        async with gateway_of(tmp_path, said, {"credentials": {"s": "ACME_CLIENT"}}) as gateway:
            result = await gateway.call("x", {})
    assert "has an address of a private network" in (result.message or "")


async def test_arguments_stay_in_their_places(tmp_path: Path) -> None:
    got: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        got.append(request.raw_path)
        return web.json_response({})

    said = document("", {})
    parameter = {"in": "path", "name": "a", "required": True, "schema": {"type": "string"}}
    query = {"in": "query", "name": "q", "schema": {"type": "string"}}
    header = {"in": "header", "name": "X-H", "schema": {"type": "string"}}
    operation = {"operationId": "x", "parameters": [parameter, query, header]}
    said["paths"] = {"/x/{a}": {"get": operation}}
    async with upstream(answer) as url:
        said["servers"] = [{"url": f"{url}/base"}]
        async with gateway_of(tmp_path, said) as gateway:
            for value in ("../../admin", "a/b?c=d#e", "%2e%2e", "ä 漢", "a;b,c"):
                result = await gateway.call("x", {"a": value, "q": "1&admin=1"}, FRESH)
                assert result.ok, result.message
            for value in ("..", ".", ""):
                assert (await gateway.call("x", {"a": value})).code == "invalid_arguments"
            split = await gateway.call("x", {"a": "b", "X-H": "1\r\nX-Evil: 2"})
            assert (split.code, "not printable" in (split.message or "")) == (
                "invalid_arguments",
                True,
            )
            long = await gateway.call("x", {"a": "b", "q": "x" * 9_000})
            assert "a URL of more than 8000 characters" in (long.message or "")
    assert all(path.startswith("/base/x/") and path.count("/") == 3 for path in got), got
    assert all(path.endswith("?q=1%26admin%3D1") for path in got), got
    assert got[0] == "/base/x/..%2F..%2Fadmin?q=1%26admin%3D1"
