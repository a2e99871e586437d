"""Requests are taken from the wire: a loopback server writes down what arrives."""

import time
from collections.abc import Mapping
from contextlib import suppress
from email.utils import formatdate
from functools import partial
from typing import Any
from urllib.parse import quote, unquote

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st
from yarl import URL

from adapters.fault import Limit, UpstreamFault, limits_of, seconds_until
from adapters.rapidapi.adapter import RapidApiAdapter, request_of
from adapters.rapidapi.keys import Key
from manifests import ArgumentError, Catalog, Manifest, RapidApiBinding, Signature
from tests.support.tools import tool
from tests.support.upstreams import COINS, SECRET, OneKey, adapter_for, upstream
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio


def test_all_requests_have_the_published_host_path_and_query(
    catalog: Catalog, facts: list[dict[str, Any]]
) -> None:
    for fact in (fact for fact in facts if fact["source"] == "rapidapi"):
        manifest = tool(catalog, fact["name"])
        assert isinstance(manifest.binding, RapidApiBinding)
        every = {p.name: p.example for p in manifest.parameters if p.example is not None}
        arguments = Signature(manifest).bind(every)
        hidden = {p.name: "x" for p in manifest.parameters if p.filled_by == "credential"}
        url, _ = request_of(manifest.binding, {**arguments, **hidden})
        path = fact["path"]
        for name, value in arguments.items():
            path = path.replace(f"{{{name}}}", str(value))
        assert (url.scheme, url.host) == ("https", fact["host"])
        assert unquote(url.raw_path) == path
        assert set(url.query) == set(fact["query"]), fact["name"]


async def test_the_wire_carries_exactly_what_the_binding_says(catalog: Catalog) -> None:
    seen: list[web.Request] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request)
        return web.json_response([{"a": 1}])

    async with upstream(handler) as url, adapter_for(catalog, url) as adapter:
        arguments = {"uuid": "a/b?c=d&é", "timeperiod": "24h"}
        answer = await adapter.fetch(tool(catalog, "get_coin"), arguments, PATIENCE_S)
    assert answer.rows == 1
    (request,) = seen
    assert request.method == "GET"
    assert request.raw_path == "/coin/a%2Fb%3Fc%3Dd%26%C3%A9?timePeriod=24h"
    assert request.headers["X-RapidAPI-Key"] == SECRET
    assert request.headers["X-RapidAPI-Host"] == COINS
    assert request.headers["Accept-Encoding"] == "gzip, deflate"


PAYLOADS = [
    *("..", ".", "../..", "../../etc/passwd", "%2e%2e", "%2e%2e%2f", "..%2f", "//evil.example"),
    *("\\\\evil.example", "@evil.example", ":80@evil.example", "?x=1", "#x", "a\r\nHost: evil"),
    *("\0", "\t", " ", "．．", "∕evil", "／", "a;b=c", "{uuid}", "%00", "%", "", "a" * 9_000),
    *("http://evil.example/", "\u202e", "\x7f", "é" * 200, "a&b=c", "+", "~", "*"),
]


class Loopback:
    """Writes down where requests arrive: the host they are for, and the raw path."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    async def handle(self, request: web.Request) -> web.Response:
        self.seen.append((request.headers["X-RapidAPI-Host"], request.raw_path))
        return web.json_response({"a": 1})

    async def takes(self, adapter: RapidApiAdapter, manifest: Manifest, text: str) -> None:
        """`text` is refused, or it arrives as one segment of the path and nowhere else."""
        self.seen.clear()
        refused = None
        try:
            await adapter.fetch(manifest, {"uuid": text}, PATIENCE_S)
        except UpstreamFault as fault:
            refused = fault.kind
        if refused:
            assert (refused, self.seen) == ("invalid", [])
            return
        ((host, raw_path),) = self.seen
        empty, coin, segment = raw_path.split("/")
        assert (host, empty, coin) == (COINS, "", "coin")
        assert not set(segment) & set("?#;@:\\")
        assert unquote(segment) == text


async def test_no_text_at_all_leaves_its_segment_of_the_path(catalog: Catalog) -> None:
    manifest, loopback = tool(catalog, "get_coin"), Loopback()
    binding = manifest.binding
    assert isinstance(binding, RapidApiBinding)
    make = partial(request_of, binding)
    texts = st.text() | st.text(alphabet="./\\%2eEfF?#@:;&=+ \r\n\0a")
    drawn: list[str] = []

    @settings(max_examples=300)
    @given(texts)
    def draw(text: str) -> None:
        drawn.append(text)
        with suppress(UpstreamFault):
            url, _ = make({"uuid": text})
            assert url.origin() == URL(f"https://{COINS}")
            assert unquote(url.raw_path.removeprefix("/coin/")) == text
            assert "/" not in url.raw_path.removeprefix("/coin/")

    draw()
    async with upstream(loopback.handle) as url, adapter_for(catalog, url) as adapter:
        for text in [*PAYLOADS, *drawn[::3]]:
            await loopback.takes(adapter, manifest, text)
            with suppress(ArgumentError):
                bound = Signature(manifest).bind({"uuid": text})
                await loopback.takes(adapter, manifest, str(bound["uuid"]))


@pytest.mark.parametrize(
    ("binding", "base_url"),
    [
        (RapidApiBinding(host="a.p.rapidapi.com", path="/x#{uuid}"), None),
        (RapidApiBinding(host="a.p.rapidapi.com", path="/x/../{uuid}"), None),
        (RapidApiBinding(host="a.p.rapidapi.com", path="/x/{missing}"), None),
        (RapidApiBinding(host="user@a.p.rapidapi.com", path="/x/{uuid}"), None),
        (RapidApiBinding(host="a.p.rapidapi.com", path="/x/{uuid}"), "http://me:pw@127.0.0.1"),
    ],
)
def test_a_request_that_is_not_where_its_binding_wants_it_is_not_made(
    binding: RapidApiBinding, base_url: str | None
) -> None:
    with pytest.raises(UpstreamFault) as caught:
        request_of(binding, {"uuid": "x"}, base_url)
    assert caught.value.kind == "invalid"


async def test_a_host_that_is_not_in_the_catalogue_is_never_asked(catalog: Catalog) -> None:
    loopback = Loopback()
    async with (
        upstream(loopback.handle) as url,
        RapidApiAdapter.open(keys=OneKey(SECRET), hosts=["other"], base_url=url) as adapter,
    ):
        with pytest.raises(UpstreamFault, match="no host of the catalogue"):
            await adapter.fetch(tool(catalog, "get_coin"), {"uuid": "x"}, PATIENCE_S)
    assert loopback.seen == []


class Ledger(OneKey):
    """Writes down what it learns; says that there is another key."""

    def __init__(self) -> None:
        super().__init__(SECRET)
        self.learned: list[tuple[int, dict[str, str]]] = []
        self.refused: list[str] = []

    def learn(self, host: str, key: Key, status: int, headers: Mapping[str, str]) -> None:
        assert (host, key) == (COINS, Key.of(SECRET))
        said = {n.lower(): v for n, v in headers.items() if n.lower().startswith("x-ratelimit")}
        self.learned.append((status, said))

    def refuse(self, host: str, key: Key) -> bool:
        self.refused.append(f"{host} {key.id}")
        return True


LEFT = {"X-RateLimit-Requests-Remaining": "0", "X-RateLimit-Requests-Reset": "60"}
MONTHLY = "You have exceeded the MONTHLY quota for Requests on your current plan, BASIC."


@pytest.mark.parametrize(
    ("status", "headers", "message", "expected"),
    [
        (302, {"Location": "http://127.0.0.1:1/"}, "", ("status", False, None)),
        (400, {}, "no such coin", ("status", False, None)),
        (401, {}, "Invalid API key.", ("not_configured", True, None)),
        (403, {}, "Invalid API key.", ("not_configured", True, None)),
        (403, {}, "You are not subscribed to this API.", ("not_subscribed", True, None)),
        (403, {}, "Forbidden", ("banned", False, None)),
        (404, {}, "no such endpoint", ("status", False, None)),
        (429, {}, "Too many requests", ("rate_limited", True, None)),
        (429, {"Retry-After": "7"}, "", ("rate_limited", True, 7)),
        (429, {"Retry-After": "soon"}, "", ("rate_limited", True, None)),
        (429, LEFT, "", ("quota_exhausted", True, 60)),
        (429, {**LEFT, "X-RateLimit-Reset": "90"}, "", ("quota_exhausted", True, 60)),
        (
            429,
            {"X-RateLimit-Remaining": "-1", "Retry-After": "9"},
            "",
            ("quota_exhausted", True, 9),
        ),
        (429, {"X-RateLimit-Remaining": "3"}, "", ("rate_limited", True, None)),
        (429, {"X-RateLimit-Reset": "8"}, MONTHLY, ("quota_exhausted", True, 8)),
        (429, {}, MONTHLY, ("quota_exhausted", True, None)),
        (500, {"Retry-After": "7"}, "", ("status", True, None)),
        (503, {"Retry-After": "7"}, "", ("status", True, 7)),
        (200, {}, "You are not subscribed to this API.", ("not_subscribed", True, None)),
        (200, {}, "Too many requests", ("rate_limited", True, None)),
        (200, {}, "Internal server error", ("status", True, None)),
        (200, {}, "no such coin", ("rejected", False, None)),
        (200, LEFT, MONTHLY, ("quota_exhausted", True, 60)),
    ],
)
async def test_each_refusal_is_its_own_fault(
    catalog: Catalog,
    status: int,
    headers: dict[str, str],
    message: str,
    expected: tuple[str, bool, float | None],
) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.json_response({"message": message}, status=status, headers=headers)

    keys = Ledger()
    async with upstream(handler) as url, adapter_for(catalog, url, keys) as adapter:
        with pytest.raises(UpstreamFault) as caught:
            await adapter.fetch(tool(catalog, "get_coin"), {"uuid": "x"}, PATIENCE_S)
    fault = caught.value
    assert (fault.kind, fault.retryable, fault.retry_after_s) == expected
    if 400 <= status < 500:
        assert message in fault.message
    assert len(keys.refused) == (fault.kind in ("not_configured", "not_subscribed"))
    first, *more = keys.learned
    assert first == (status, {n.lower(): v for n, v in headers.items() if n.startswith("X-")})
    only_the_body_says_so = fault.kind == "quota_exhausted" and not any(
        "Remaining" in name for name in headers
    )
    assert [said["x-ratelimit-requests-remaining"] for _, said in more] == (
        ["0"] if only_the_body_says_so else []
    )


async def test_one_key_alone_is_not_tried_again(catalog: Catalog) -> None:
    async def handler(request: web.Request) -> web.Response:
        status = 401 if request.path.endswith("/a") else 403
        return web.json_response({"message": "You are not subscribed to this API."}, status=status)

    async with upstream(handler) as url, adapter_for(catalog, url) as adapter:
        for uuid, kind in (("a", "not_configured"), ("b", "not_subscribed")):
            with pytest.raises(UpstreamFault) as caught:
                await adapter.fetch(tool(catalog, "get_coin"), {"uuid": uuid}, PATIENCE_S)
            assert (caught.value.kind, caught.value.retryable) == (kind, False)


async def test_without_a_key_nothing_is_sent(catalog: Catalog) -> None:
    loopback = Loopback()
    async with upstream(loopback.handle) as url, adapter_for(catalog, url, OneKey(None)) as adapter:
        with pytest.raises(UpstreamFault, match="set FINPORT_RAPIDAPI_KEYS") as caught:
            await adapter.fetch(tool(catalog, "get_coin"), {"uuid": "x"}, PATIENCE_S)
    assert (caught.value.kind, loopback.seen) == ("not_configured", [])


def test_a_key_shows_its_fingerprint_only() -> None:
    key = Key.of(SECRET)
    assert SECRET not in repr(key)
    assert len(key.id) == 8
    assert key.id in repr(key)


CREDENTIAL = "operator's own/credential"


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 429, 500])
@pytest.mark.parametrize(
    "body",
    [
        '{"message": "%s is wrong"}',
        '{"status": "error", "error": {"message": "no access for %s"}}',
        "<html><title>%s</title>",
        "cannot read %s",
        '{"a": "%s',
        "%s",
    ],
)
async def test_no_fault_repeats_a_secret(catalog: Catalog, status: int, body: str) -> None:
    async def handler(request: web.Request) -> web.Response:
        secrets = (request.headers["X-RapidAPI-Key"], request.query["apikey"], request.query_string)
        text = body.replace("%s", " ".join([*secrets, secrets[0].upper()]))
        return web.Response(text=text, status=status)

    manifest = tool(catalog, "busca_por_simbolo")
    credentials = {manifest.upstream: CREDENTIAL}
    async with (
        upstream(handler) as url,
        adapter_for(catalog, url, credentials=credentials) as adapter,
    ):
        with pytest.raises(UpstreamFault) as caught:
            await adapter.fetch(manifest, Signature(manifest).bind(manifest.sample()), PATIENCE_S)
    shown = f"{caught.value.message} {caught.value!r}".lower()
    for start in (SECRET[:9], CREDENTIAL[:9], quote(CREDENTIAL, safe="")[:9]):
        assert start not in shown


async def test_nobody_listening_is_unreachable(catalog: Catalog) -> None:
    for url, text in (
        ("http://127.0.0.1:1", "refuses connections"),
        ("http://nowhere.invalid", "no address"),
    ):
        async with adapter_for(catalog, url) as adapter:
            with pytest.raises(UpstreamFault, match=text) as caught:
                await adapter.fetch(tool(catalog, "get_coin"), {"uuid": "x"}, PATIENCE_S)
        assert (caught.value.kind, caught.value.retryable) == ("unreachable", True)


async def test_what_does_not_speak_tls_is_unreachable(catalog: Catalog) -> None:
    async with (
        upstream(Loopback().handle) as url,
        adapter_for(catalog, url.replace("http:", "https:")) as adapter,
    ):
        with pytest.raises(UpstreamFault, match="no TLS connection") as caught:
            await adapter.fetch(tool(catalog, "get_coin"), {"uuid": "x"}, PATIENCE_S)
    assert (caught.value.kind, caught.value.retryable) == ("unreachable", True)


async def test_no_proxy_of_the_environment_and_no_cookie_is_used(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    cookies = []

    async def handler(request: web.Request) -> web.Response:
        cookies.append(dict(request.cookies))
        return web.json_response({"a": 1}, headers={"Set-Cookie": "session=1"})

    async with upstream(handler) as url, adapter_for(catalog, url) as adapter:
        for _ in range(2):
            await adapter.fetch(tool(catalog, "get_coin"), {"uuid": "x"}, PATIENCE_S)
    assert cookies == [{}, {}]


async def test_operator_credentials_fill_the_parameters_that_agents_may_not(
    catalog: Catalog,
) -> None:
    seen: list[web.Request] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request)
        return web.json_response({"a": 1})

    manifest = tool(catalog, "busca_por_simbolo")
    arguments = Signature(manifest).bind(manifest.sample())
    async with upstream(handler) as url:
        credentials = {manifest.upstream: "mine"}
        async with adapter_for(catalog, url, credentials=credentials) as adapter:
            await adapter.fetch(manifest, arguments, PATIENCE_S)
        assert seen[0].query["apikey"] == "mine"
        async with adapter_for(catalog, url) as adapter:
            with pytest.raises(UpstreamFault, match="set FINPORT_CREDENTIALS") as caught:
                await adapter.fetch(manifest, arguments, PATIENCE_S)
    assert caught.value.kind == "not_configured"


def test_headers_tell_limits_in_two_forms() -> None:
    now = time.time()
    headers = {
        "X-RateLimit-Requests-Limit": "500",
        "x-ratelimit-requests-remaining": "499",
        "X-RATELIMIT-REQUESTS-RESET": "1000",
        "x-ratelimit-rapid-free-plans-hard-limit-limit": "500000",
        "X-RateLimit-Limit": "5",
        "X-RateLimit-Credits-Remaining": "many",
        "X-RateLimit-Seconds-Reset": str(now + 30),
        "X-RateLimit-Odd-Remaining": "-3",
        "X-RateLimit": "9",
    }
    limits = {limit.name: limit for limit in limits_of(headers)}
    assert limits["requests"] == Limit("requests", 500, 499, 1000.0)
    hard = "rapid-free-plans-hard-limit"
    assert limits[hard] == Limit(hard, 500_000)
    assert limits["odd"] == Limit("odd", remaining=-3)
    assert limits["seconds"].reset_s is not None
    assert now + 29 - time.time() <= limits["seconds"].reset_s <= 30
    assert set(limits) == {"requests", hard, "odd", "seconds"}


def test_retry_after_is_a_number_or_a_date() -> None:
    assert seconds_until("120") == 120
    assert seconds_until(" 1.5 ") == 1.5
    assert seconds_until("-5") == 0
    in_an_hour = time.time() + 3600
    for hour in (formatdate(in_an_hour, usegmt=True), f"{in_an_hour:.0f}", f"{in_an_hour:.3f}"):
        left = seconds_until(hour)
        assert left is not None
        assert in_an_hour - 1 - time.time() <= left <= 3601
    assert seconds_until("1000000000") == 0, "a Unix time that is past"
    assert seconds_until("Fri, 31 Dec 1999 23:59:59 GMT") == 0
    for text in (None, "", "soon", "9" * 400, "Fri, 99 Foo 1999 23:59:59 GMT", "٣"):
        assert seconds_until(text) is None


@given(st.dictionaries(st.text(), st.text()), st.text())
def test_no_header_is_too_odd_to_read(headers: dict[str, str], text: str) -> None:
    seconds_until(text)
    limits_of({**headers, "x-ratelimit-requests-reset": text})
