"""Secrets that an upstream repeats, in a success as in a failure: loopback servers echo them."""

import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote, quote_plus

import orjson
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from adapters.mask import MASKED, Mask
from adapters.normalise import Answer, masked
from manifests import Catalog
from tests.support.gateways import open_local_gateway
from tests.support.tools import tool
from tests.support.upstreams import OneKey, adapter_for, upstream

pytestmark = pytest.mark.anyio

SECRET = 'planted+key/0451=="\\'  # noqa: S105 - no real one
PLAIN = "planted-key-0451"

Handler = Callable[[web.Request], Awaitable[web.Response]]


def echo(
    make: Callable[[str], Any], charset: str = "utf-8", escape: Callable[[str], str] = str
) -> Handler:
    """Answers with what `make` does of the key that came."""

    async def handler(request: web.Request) -> web.Response:
        text = escape(json.dumps(make(request.headers["X-RapidAPI-Key"]), ensure_ascii=False))
        kind = f"application/json; charset={charset}"
        return web.Response(body=text.encode(charset), headers={"Content-Type": kind})

    return handler


def as_escapes(text: str) -> str:
    return text.replace("planted", "".join(f"\\u{ord(c):04x}" for c in "planted"))


async def fetched(catalog: Catalog, handler: Handler, secret: str) -> Answer:
    async with upstream(handler) as url, adapter_for(catalog, url, OneKey(secret)) as adapter:
        return await adapter.fetch(tool(catalog, "get_coin"), {"uuid": "x"}, 5)


@pytest.mark.parametrize(
    "handler",
    [
        echo(lambda key: {"headers": {"X-Rapidapi-Key": key}, "price": 1.5}),
        echo(lambda key: {key: 1, f"a {key}!": 2}),
        echo(lambda key: [{"a": 1, "seen": key}, {"a": 2, "seen": f"Bearer {key}"}]),
        echo(lambda key: [{key: 1}]),
        echo(lambda key: key),
        echo(lambda key: [[[key]]]),
        echo(lambda key: {"url": f"http://u/?key={quote(key, safe='')}&a=1"}),
        echo(lambda key: {"url": f"http://u/?key={quote_plus(key)}"}),
        echo(lambda key: {"url": f"http://u/{quote(key).lower()}"}),
        echo(lambda key: {"body": json.dumps({"sent": json.dumps({"key": key})})}),
        echo(lambda key: {"shouted": key.upper()}),
        echo(lambda key: {"data": key}, escape=as_escapes),
        echo(lambda key: {"data": key}, charset="utf-16"),
        echo(lambda key: {"data": [key] * 20_000}),
        echo(lambda key: {"long": 2**70, "data": key}),
    ],
)
@pytest.mark.parametrize("secret", [PLAIN, SECRET[:-2]])
async def test_a_key_that_a_success_repeats_is_masked(
    catalog: Catalog, handler: Handler, secret: str
) -> None:
    answer = await fetched(catalog, handler, secret)
    text = json.dumps(json.loads(answer.data), ensure_ascii=False).lower()
    assert MASKED in text
    assert "planted" not in text
    assert not any("planted" in name for name in answer.columns or ())


async def test_what_holds_no_secret_stays_to_the_last_byte(catalog: Catalog) -> None:
    said = [{"a": 1, "b": None}, {"a": 2.5, "b": "plant"}]
    answer = await fetched(catalog, echo(lambda _: said), PLAIN)
    assert answer == Answer(b'[{"a":1,"b":null},\n{"a":2.5,"b":"plant"}]', ("a", "b"), 2)


async def test_no_caller_cache_or_handle_gets_a_key_that_was_repeated(
    catalog: Catalog, tmp_path: Any
) -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.json_response({"headers": dict(request.headers), "other": "planted-two"})

    keys = (PLAIN, "planted-two")
    async with (
        upstream(handler) as url,
        open_local_gateway(catalog, tmp_path, rapidapi_base_url=url, rapidapi_keys=keys) as local,
    ):
        result = await local.gateway.call("get_coin", {"uuid": "x"})
    assert result.ok
    said = result.to_json()
    assert b"planted" not in said
    assert json.loads(said)["data"]["headers"]["X-RapidAPI-Key"] == MASKED
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert files
    assert not any(b"planted" in file.read_bytes() for file in files)


def test_columns_of_a_table_without_rows_are_masked() -> None:
    empty = Answer(b"[]", (PLAIN, "a"), 0)
    assert masked(empty, Mask([PLAIN])) == Answer(b"[]", (MASKED, "a"), 0)


def test_a_secret_of_digits_is_masked_where_it_is_a_whole_number() -> None:
    value = {"account": 12345678, "price": 112345678.5, "is": True, "text": "no 12345678"}
    assert Mask(["12345678"]).value(value) == {
        "account": MASKED,
        "price": 112345678.5,
        "is": True,
        "text": f"no {MASKED}",
    }


def test_what_is_too_short_is_no_secret() -> None:
    assert not Mask(["", "abc"])
    assert Mask(["abc"]).text("abc") == "abc"
    assert not Mask(["abc"]).is_in(b'"abc"')


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(
    st.text(min_size=4, max_size=20).filter(lambda text: text.isprintable() and "*" not in text),
    json_values,
    st.sampled_from([str, quote, quote_plus, lambda s: orjson.dumps(s).decode()[1:-1]]),
)
def test_whatever_the_secret_it_is_found_and_nothing_of_it_is_left(
    secret: str, beside: Any, spell: Callable[[str], str]
) -> None:
    mask = Mask([secret])
    said = orjson.dumps({"beside": beside, "x": [f"a{spell(secret)}b"]})
    assert mask.is_in(said)
    left = orjson.dumps(mask.value(orjson.loads(said)))
    assert orjson.loads(left)["x"] == [f"a{MASKED}b"]
    assert mask.value(orjson.loads(left)) == orjson.loads(left)
