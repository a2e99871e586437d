"""A name that stands twice in one object: every interface reports it, and takes neither value."""

import json
from typing import Any

import orjson
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from gateway.cli.main import main
from gateway.pipeline.bind import Binder, InvalidCall
from manifests import Catalog
from manifests.common.json_text import AT_ONCE, Repeating, read_json
from tests.support.gateways import ServedGateway
from tests.support.mcp_messages import result_of

pytestmark = pytest.mark.anyio

TWICE = b'{"uuid":"a","uuid":"b"}'
TOLD = "uuid: is given more than once, expected one value"


def check(error: dict[str, Any]) -> None:
    assert (error["code"], error["fault"]) == ("invalid_arguments", "agent")
    assert error["message"] == TOLD
    assert error["details"]["problems"][0]["argument"] == "uuid"


async def test_a_body_with_an_argument_twice_is_refused(served: ServedGateway) -> None:
    spellings = (TWICE, b' {"uuid" \n:\t"a" , "uuid":"b:"}', rb'{"uuid":"a","\u0075uid":1}')
    for body in (*spellings, b'{"uuid":"a","x":{"uuid":1},"uuid":"b"}'):
        for _ in range(2):  # also where the text is known already
            status, answer = await served.ask("/v1/tools/get_coin", body)
            assert status == 422
            check(answer["error"])
    _, answer = await served.ask("/v1/tools/get_coin", b'{"uuid":"a:b","x":{"uuid":1}}')
    assert "x: is no argument of this tool" in answer["error"]["message"]
    _, answer = await served.ask("/v1/tools/get_conin", TWICE)
    assert answer["error"]["code"] == "unknown_tool"


async def test_a_call_of_a_batch_with_an_argument_twice_is_refused_alone(
    served: ServedGateway,
) -> None:
    calls = [
        b'{"id":1,"tool":"get_coin","arguments":%b}' % TWICE,
        b'{"id":2,"tool":"get_coin","arguments":{"uuid":"c"}}',
        b'{"id":3,"tool":"get_coin","tool":"get_coins","arguments":{"uuid":"c"}}',
    ]
    filling = b'{"id":4,"tool":"get_coin","arguments":{"uuid":"%b"}}' % (b"x" * AT_ONCE)
    bodies = (b"\n".join(calls), b"[%b]" % b",".join(calls))
    for body in (*bodies, b"[%b]" % b",".join((*calls, filling))):
        async with served.client.post(f"{served.url}/v1/calls", data=body) as got:
            answers = {a["id"]: a for a in map(json.loads, (await got.text()).splitlines())}
        check(answers[1]["error"])
        assert answers[2]["ok"]
        assert answers[3]["error"]["code"] == "invalid_request"
        assert "call 3 has tool more than once" in answers[3]["error"]["message"]


@pytest.mark.parametrize(
    ("query", "name", "arguments"),
    [
        ("?tools=all", b"get_coin", TWICE),
        ("", b"call_tool", b'{"name":"get_coin","arguments":%b}' % TWICE),
    ],
)
async def test_an_mcp_call_with_an_argument_twice_is_refused(
    served: ServedGateway, query: str, name: bytes, arguments: bytes
) -> None:
    params = b'{"name":"%b","arguments":%b}' % (name, arguments)
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b}' % params
    _, answer = await served.ask(f"/mcp{query}", body)
    result = answer["result"]
    assert result["isError"]
    check(json.loads(result["content"][0]["text"])["error"])


@pytest.mark.parametrize(
    ("params", "twice"),
    [
        (b'"name":"call_tool","name":"search_tools","arguments":{"query":"x"}', "name"),
        (b'"name":"call_tool","arguments":{"name":"x","name":"get_coin","arguments":{}}', "name"),
        (
            b'"name":"call_tool","arguments":{"name":"get_coin","arguments":{},"arguments":{}}',
            "arguments",
        ),
        (b'"name":"read_result","arguments":{"handle":"x","handle":"y"}', "handle"),
        (b'"name":"describe_tool","arguments":{"name":"x","name":"y"}', "name"),
    ],
)
async def test_a_name_twice_is_refused_wherever_it_stands_in_a_message(
    served: ServedGateway, params: bytes, twice: str
) -> None:
    before = served.local.gateway.outcomes["live"]
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{%b}}' % params
    _, answer = await served.ask("/mcp", body)
    said = answer["error"]["message"] if "error" in answer else str(answer["result"])
    assert "error" in answer or answer["result"]["isError"]
    assert f"{twice} is given more than once" in said or f"{twice}: is given more than once" in said
    assert served.local.gateway.outcomes["live"] == before


async def test_a_message_that_has_a_name_twice_is_no_request(served: ServedGateway) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}'
    _, answer = await served.ask("/mcp", body)
    assert "id is given more than once" in answer["error"]["message"]


async def test_a_long_message_with_colons_in_its_texts_is_read(served: ServedGateway) -> None:
    told = await result_of(served, "search_tools", {"query": '{"a": 1} ' * 3_000})
    assert "error" not in told


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (["uuid=a", "uuid=b"], 2, "uuid is given more than once"),
        (["uuid=a", "--args", '{"uuid":"b"}'], 2, "uuid is given more than once"),
        (["--args", TWICE.decode()], 1, TOLD),
        (["--args", '{"uuid":"\ud800"}'], 2, "--args is not JSON"),
    ],
)
def test_a_command_with_an_argument_twice_is_refused(
    options: list[str], code: int, told: str
) -> None:
    done = CliRunner().invoke(main, ["call", "get_coin", *options, "--upstream", "simulated"])
    assert done.exit_code == code
    assert told in done.output


async def test_a_text_that_is_too_long_to_be_read_twice_is_refused(catalog: Catalog) -> None:
    long = b'{"uuid":"a","uuid":"%b"}' % (b"x" * AT_ONCE)
    with pytest.raises(InvalidCall, match="too long to be searched for names that stand twice"):
        Binder(catalog).bind("get_coin", long)
    plain = b'{"uuid":"09:30 %b"}' % (b"x" * AT_ONCE)
    assert Binder(catalog).bind("get_coin", plain)


def test_what_is_nested_deeply_is_read_or_refused() -> None:
    deep = b'{"a":' * 900 + b"1" + b"}" * 900
    assert read_json(deep)
    odd = b'{"a":' * 1_000 + b'":"' + b"}" * 1_000
    with pytest.raises(orjson.JSONDecodeError):
        read_json(odd)


TEXTS = st.text(alphabet='ab:" \\,{}\n\u00e9', max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def written(pairs: list[tuple[str, Any]], colon: str) -> bytes:
    members = (f"{json.dumps(name)}{colon}{json.dumps(value)}" for name, value in pairs)
    return f"{{{','.join(members)}}}".encode()


@given(st.lists(st.tuples(TEXTS, VALUES), max_size=5), st.sampled_from([":", ": ", " :", "\n:\t"]))
def test_names_that_stand_twice_are_found_exactly(pairs: list[tuple[str, Any]], colon: str) -> None:
    text = written(pairs, colon)
    value = read_json(text)
    names = [name for name, _ in pairs]
    repeated = {name for name in names if names.count(name) > 1}
    assert set(value.repeated if isinstance(value, Repeating) else ()) == repeated
    assert value == orjson.loads(text)
