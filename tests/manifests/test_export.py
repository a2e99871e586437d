"""What we export is valid by the vendors' own rules and types, for every tool."""

import json
import re
from typing import Any, Literal

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, TypeAdapter

from manifests import AkShareBinding, ArgumentError, Catalog, Parameter, Signature
from manifests.export import EXPORT_FORMATS, ExportFormat, arguments_schema, export
from manifests.fintoolbench import read_lines
from tests.support.tools import tool as tool_named

VENDOR_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def _official(format_: ExportFormat) -> TypeAdapter[Any]:
    """The type of one official SDK; the import of each takes about a second."""
    match format_:
        case "openai":
            from openai.types.chat import ChatCompletionFunctionToolParam

            return TypeAdapter(ChatCompletionFunctionToolParam)
        case "anthropic":
            from anthropic.types import ToolParam

            return TypeAdapter(ToolParam)
        case _:
            from mcp.types import Tool

            return TypeAdapter(Tool)


@pytest.mark.parametrize("format_", ["openai", "anthropic", "mcp"])
def test_every_tool_fits_the_official_sdk_types(catalog: Catalog, format_: ExportFormat) -> None:
    adapter = _official(format_)
    for tool in catalog:
        adapter.validate_python(export(tool, format_))


def test_all_argument_schemas_are_json_schema_2020_12_and_accept_the_sample(
    catalog: Catalog,
) -> None:
    for tool in catalog:
        schema = export(tool, "jsonschema")
        Draft202012Validator.check_schema(schema)
        validator = Draft202012Validator(schema)
        validator.validate(tool.sample())
        validator.validate(Signature(tool).bind(tool.sample()))
        assert VENDOR_NAME.fullmatch(tool.name)
        assert not validator.is_valid({**tool.sample(), "no_such_argument": 1})


@pytest.mark.parametrize("format_", ["mcp", "jsonschema"])
def test_what_may_be_left_out_has_a_default_or_may_be_null(
    catalog: Catalog, format_: ExportFormat
) -> None:
    key, optional = {"mcp": "inputSchema"}.get(format_), 0
    for tool in catalog:
        exported = export(tool, format_)
        schema = exported[key] if key else exported
        absent = {}
        for name, property_ in schema["properties"].items():
            if name not in schema["required"]:
                optional += 1
                absent[name] = property_["default"]
        Draft202012Validator(schema).validate({**absent, **tool.sample()})
        signature = Signature(tool)
        assert signature.bind({**absent, **tool.sample()}) == signature.bind(tool.sample())
    assert optional > 700


def test_a_nullable_argument_is_written_as_pydantic_writes_it(catalog: Catalog) -> None:
    class Model(BaseModel):
        plain: str | None = None
        chosen: Literal["a", "b"] | None = None

    written = Model.model_json_schema()["properties"]
    for parameter in (
        Parameter(name="plain", type="string", description="d"),
        Parameter(name="chosen", type="string", description="d", enum=("a", "b")),
    ):
        tool = tool_named(catalog, "get_coin")
        changed = tool.model_copy(update={"parameters": (parameter,)})
        ours = export(changed, "mcp")["inputSchema"]["properties"][parameter.name]
        assert ours["default"] is None
        by_type = {choice["type"]: choice for choice in ours["anyOf"]}
        assert by_type == {c["type"]: c for c in written[parameter.name]["anyOf"]}


def test_titles_are_words_and_hints_true(catalog: Catalog) -> None:
    titles = {}
    for tool in catalog:
        exported = export(tool, "mcp")
        titles[tool.name] = exported["title"]
        assert 5 < len(exported["title"]) < 120
        assert "_" not in exported["title"]
        changes = tool.intent_type == "transactional"
        assert exported["annotations"] == {
            "title": exported["title"],
            "readOnlyHint": not changes,
            "destructiveHint": changes,
            "idempotentHint": not changes,
            "openWorldHint": True,
        }
    assert titles["stock_get_beta"] == "Beta of one stock"
    assert titles["stock_zt_pool_em"] == "Stocks locked at the daily price ceiling on a trading day"
    assert len(set(titles.values())) > 0.98 * len(catalog)


def test_a_tool_without_fitting_words_has_those_of_its_name(catalog: Catalog) -> None:
    tool = tool_named(catalog, "get_coin")
    for description in ("", "x" * 500):
        changed = tool.model_copy(update={"description": description})
        assert export(changed, "mcp")["title"] == "Get coin"


def test_strict_mode_keeps_to_its_subset(catalog: Catalog) -> None:
    allowed = {"type", "description", "enum"}
    for tool in catalog:
        function = export(tool, "openai", strict=True)["function"]
        schema = function["parameters"]
        assert function["strict"] is True
        assert schema["additionalProperties"] is False
        assert schema["required"] == list(schema["properties"])
        for name, property_ in schema["properties"].items():
            assert set(property_) <= allowed, (tool.name, name)
        nulls = {
            name: None
            for name, property_ in schema["properties"].items()
            if "null" in property_["type"]
        }
        call = {**nulls, **tool.sample()}
        Draft202012Validator(schema).validate(call)
        Signature(tool).bind(call)


def test_what_only_the_gateway_fills_in_is_offered_to_nobody(catalog: Catalog) -> None:
    for tool in catalog:
        hidden = {p.name for p in tool.parameters if p.filled_by != "agent" or p.withdrawn}
        assert not hidden & set(arguments_schema(tool)["properties"])


def test_what_names_the_instrument_is_asked_for_by_every_schema_and_every_call(
    catalog: Catalog,
) -> None:
    named = [
        (tool, p)
        for tool in catalog
        for p in tool.parameters
        if p.required and p.default is not None
    ]
    assert (len(named), len({tool.name for tool, _ in named})) == (276, 274)
    for tool, p in named:
        signature, given = Signature(tool), tool.sample()
        assert given.pop(p.name) == p.example
        why = rf"{p.name}: is missing \(it names the instrument, so it has no default\)"
        for left_out in (given, {**given, p.name: None}):
            with pytest.raises(ArgumentError, match=why):
                signature.bind(left_out)
            assert signature.completed(left_out) == {**given, p.name: p.default}
        for schema in (
            export(tool, "jsonschema"),
            export(tool, "mcp")["inputSchema"],
            export(tool, "anthropic")["input_schema"],
            export(tool, "openai")["function"]["parameters"],
        ):
            assert p.name in schema["required"]
            assert "default" not in schema["properties"][p.name]
        strict = export(tool, "openai", strict=True)["function"]["parameters"]
        assert strict["properties"][p.name]["type"] == p.type
        assert p.name not in export(tool, "fintoolbench")["parameters"]["required"]


@pytest.mark.parametrize(
    ("tool", "name", "default"),
    [
        ("stock_yysj_em", "symbol", "沪深A股"),
        ("stock_share_hold_change_szse", "symbol", "全部"),
        ("fund_open_fund_rank_em", "symbol", "全部"),
        ("index_realtime_sw", "symbol", "二级行业"),
        ("rates", "base", "USD"),
    ],
)
def test_what_chooses_a_list_keeps_its_default(
    catalog: Catalog, tool: str, name: str, default: str
) -> None:
    manifest = tool_named(catalog, tool)
    assert Signature(manifest).bind(manifest.sample())[name] == default
    assert arguments_schema(manifest)["properties"][name]["default"] == default


def test_tags_stand_in_the_description_unless_left_out(catalog: Catalog) -> None:
    tool = tool_named(catalog, "bond_zh_us_rate")
    tagged = export(tool, "anthropic")["description"]
    assert tagged.endswith("[timeliness: daily; intent: informational; domains: bond, macro]")
    assert export(tool, "anthropic", tags=False)["description"] == tool.description


def test_our_export_equals_the_published_facts(
    catalog: Catalog, facts: list[dict[str, Any]]
) -> None:
    exported = {tool.name: export(tool, "fintoolbench") for tool in catalog}
    for fact in facts:
        ours = exported[fact["name"]]
        assert ours["tool_from"] == fact["source"]
        assert ours["financial_tags"] == {
            name: fact[name] for name in ("timeliness", "intent_type", "regulatory_domains")
        }
        assert list(ours["parameters"]["properties"]) == [p["name"] for p in fact["params"]]
    assert len(exported) == len(facts)


def test_export_and_import_give_the_same_tools(catalog: Catalog) -> None:
    lines = [json.dumps(export(tool, "fintoolbench")).encode() for tool in catalog]
    imported = read_lines(lines, catalog)
    assert imported.refused == {}
    assert imported.manifests == list(catalog)


def test_code_in_an_imported_file_is_not_read() -> None:
    line = {
        "name": "stock_new",
        "tool_from": "akshare",
        "description": "A new one.\nhttps://example.com",
        "parameters": {
            "type": "object",
            "properties": {"symbol": {"type": "string", "description": "code"}},
            "required": ["symbol"],
        },
        "python_code": "raise SystemExit('run')",
        "financial_tags": {
            "timeliness": "daily",
            "intent_type": "informational",
            "regulatory_domains": ["equity"],
        },
    }
    (tool,) = read_lines([json.dumps(line).encode()], Catalog([])).manifests
    assert tool.binding == AkShareBinding(function="stock_new")
    assert tool.description == "A new one."
    assert "SystemExit" not in tool.model_dump_json()


def test_what_cannot_come_in_is_refused_by_name_with_the_reason() -> None:
    lines = [
        b'{"name": "far", "tool_from": "rapidapi", "description": "x", "parameters": {},'
        b' "financial_tags": {"timeliness": "daily", "intent_type": "informational",'
        b' "regulatory_domains": ["equity"]}, "python_code": "x"}',
        b'{"name": "bad", "tool_from": "akshare"}',
        b"{",
        b"",
    ]
    refused = read_lines(lines, Catalog([])).refused
    assert "stands in its code only" in refused["far"]
    assert refused["bad"] == "description: Field required"
    assert set(refused) == {"far", "bad", "line 3"}


def test_the_command_line_knows_every_format() -> None:
    from gateway.cli.manifests import FORMATS

    assert FORMATS == EXPORT_FORMATS
