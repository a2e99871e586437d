"""What OpenAPI documents become, and what is left out of them and why."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from manifests import HttpBinding, Manifest
from manifests.export import export
from manifests.openapi.document import OpenApiError, read_document
from manifests.openapi.importing import Imported, imported

DOCUMENTS = Path(__file__).parent / "documents"


def imported_file(name: str, **said: Any) -> Imported:
    return imported(read_document((DOCUMENTS / name).read_bytes()), **said)


def imported_text(text: str, **said: Any) -> Imported:
    head = "openapi: 3.1.0\ninfo: {title: T, version: '1'}\nservers: [{url: https://api.example.com}]\n"
    return imported(read_document((head + text).encode()), **said)


def tools_of(found: Imported) -> dict[str, Manifest]:
    return {manifest.name: manifest for manifest in found.manifests}


@pytest.mark.parametrize(
    ("name", "tools", "operations", "reasons"),
    [
        (
            "market_data.yaml",
            5,
            8,
            {
                "OPTIONS /reference/tickers": "OPTIONS is no method of a tool",
                "POST /reference/logo": "its body: it is sent as image/png, neither JSON nor a"
                " form",
                "GET /reference/elsewhere": "it refers to"
                " 'common.yaml#/components/parameters/Page', which is not in the document",
            },
        ),
        ("central_bank.yaml", 6, 7, {"TRACE /structure/{kind}": "TRACE is no method of a tool"}),
        (
            "broker.json",
            10,
            13,
            {
                "POST /chains": "its body: its schema recurs without an end, or is too long",
                "GET /digest": "its security scheme 'digest' is of a kind that is not known",
                "GET /broken": "it refers to '#/components/parameters/Missing', which is not there",
            },
        ),
        ("petstore.yaml", 5, 5, {}),
    ],
)
def test_each_operation_is_imported_or_has_a_reason(
    name: str, tools: int, operations: int, reasons: dict[str, str]
) -> None:
    found = imported_file(name)
    assert (len(found.manifests), found.present) == (tools, operations)
    assert {one.operation: one.reason for one in found.left_out} == reasons
    for manifest in found.manifests:
        assert manifest.generated == f"openapi {found.title} {found.version}"
        for format_ in ("openai", "anthropic", "mcp", "jsonschema"):
            export(manifest, format_)


def test_servers_credentials_and_parameters_stand_in_the_binding() -> None:
    bars = tools_of(imported_file("market_data.yaml"))["getBars"]
    binding = bars.binding
    assert isinstance(binding, HttpBinding)
    assert binding.base_url == "https://api.marketdata.example.com/v2"
    assert bars.upstream == "api.marketdata.example.com"
    assert binding.path == "/bars/{ticker}/range/{multiplier}/{timespan}/{from}/{to}"
    assert [(c.scheme, c.kind, c.name) for one in binding.security for c in one] == [
        ("apiKey", "query", "apikey")
    ]
    assert (bars.intent_type, bars.timeliness) == ("informational", "realtime")
    assert [column.name for column in bars.columns][:2] == ["date", "open"]
    parameters = {p.name: p for p in bars.parameters}
    assert "apikey" not in parameters, "the operator gives it, no agent"
    assert (parameters["from"].format, parameters["from"].example) == ("date", "2024-01-31")
    limit = parameters["limit"]
    assert (limit.default, limit.json_schema) == (None, {"minimum": 1, "maximum": 5000})
    assert limit.description == "Most rows of the answer. Default: 120."
    assert "Matches ^[A-Z][A-Z.]*$" in parameters["ticker"].description
    assert bars.sample() == {
        "ticker": "AAPL",
        "multiplier": 1,
        "timespan": "minute",
        "from": "2024-01-31",
        "to": "2024-01-31",
    }


def test_a_body_of_few_properties_becomes_parameters() -> None:
    tools = tools_of(imported_file("broker.json"))
    order = {p.name: p for p in tools["createOrder"].parameters}
    assert [name for name, p in order.items() if p.required] == ["symbol", "side", "type"]
    assert "id" not in order, "it is read-only"
    assert (order["symbol"].example, order["side"].enum) == ("AAPL", ("buy", "sell"))
    assert order["time_in_force"].default is None, "a default would overwrite in a change"
    assert order["legs"].type == "array"
    replace = [p.name for p in tools["replaceOrder"].parameters]
    assert replace == ["order_id", "qty", "order_id_body", "body"], "names are made unique"
    (body,) = tools["setWatchlist"].parameters
    assert (body.name, body.type, body.example) == ("body", "array", '["text"]')
    assert tools["createOrder"].intent_type == "transactional"


def test_yaml_is_read_by_its_version_1_2() -> None:
    found = imported_text(
        """
paths:
  /rates:
    get:
      parameters:
        - {name: country, in: query, required: true, schema: {type: string, enum: [NO, SE, on]}}
        - {name: day, in: query, required: true, schema: {type: string}, example: 2024-02-30}
"""
    )
    country, day = found.manifests[0].parameters
    assert (country.enum, day.example) == (("NO", "SE", "on"), "2024-02-30")


def test_openapi_3_0_is_translated() -> None:
    text = """
openapi: 3.0.0
info: {title: T, version: '1'}
servers: [{url: https://api.example.com/}]
paths:
  /x:
    post:
      requestBody:
        required: true
        content:
          application/json:
            schema:
              type: object
              required: [a]
              properties:
                a:
                  type: array
                  items: {type: integer, nullable: true, minimum: 1, exclusiveMinimum: true}
"""
    (manifest,) = imported(read_document(text.encode())).manifests
    assert manifest.parameters[0].json_schema == {
        "items": {"type": ["integer", "null"], "exclusiveMinimum": 1}
    }


def test_names_are_valid_and_unique() -> None:
    found = imported_text(
        """
paths:
  /a/{b}:
    get:
      operationId: "repos/get the.thing!"
      parameters: [{name: b, in: path, required: true, schema: {}}]
  /c:
    get: {operationId: repos/get-the.thing?}
    put: {operationId: repos get the thing}
  /d: {get: {}}
  /%C3%A9/long: {get: {operationId: LONG}}
""".replace("LONG", "x" * 90),
        prefix="acme_",
    )
    names = [manifest.name for manifest in found.manifests]
    assert names == [
        "repos_get_the_thing",
        "repos_get-the_thing",
        "repos_get_the_thing_2",
        "get_d",
        "x" * 59,
    ]


def test_each_property_of_a_form_has_its_style() -> None:
    properties: dict[str, Any] = {f"p{n}": {"type": "string"} for n in range(40)}
    properties |= {"expand": {"type": "array", "items": {"type": "string"}}}
    form = {
        "schema": {"type": "object", "required": ["p0"], "properties": properties},
        "encoding": {"expand": {"style": "deepObject", "explode": True}},
    }
    content = {"application/x-www-form-urlencoded": form}
    paths = {"/x": {"post": {"requestBody": {"content": content}}}}
    (manifest,) = imported_text(yaml.safe_dump({"paths": paths})).manifests
    assert len(manifest.parameters) == 41
    assert [p.name for p in manifest.parameters if p.required] == ["p0"]
    assert isinstance(manifest.binding, HttpBinding)
    assert {p.style for p in manifest.binding.parts if p.name == "expand"} == {"deepObject"}


def test_a_file_in_a_form_is_left_out() -> None:
    file = {"type": "string", "format": "binary"}
    fields = {"type": "object", "properties": {"file": file, "title": {"type": "string"}}}
    content = {"multipart/form-data": {"schema": fields}}
    paths = {"/x": {"post": {"requestBody": {"required": True, "content": content}}}}
    found = imported_text(yaml.safe_dump({"paths": paths}))
    assert [p.name for p in found.manifests[0].parameters] == ["title"]
    assert found.notes[0].reason == "property file of its body is left out: it is a file"


def test_small_errors_of_a_document_are_noted() -> None:
    found = imported_text(
        """
paths:
  /a/{b}:
    get:
      parameters: [{name: c, in: path, required: true, schema: {type: string}}]
      requestBody: {content: {application/json: {}}}
"""
    )
    (manifest,) = found.manifests
    assert [(p.name, p.type, p.required) for p in manifest.parameters] == [("b", "string", True)]
    assert [note.reason for note in found.notes] == [
        "parameter b is not described, and taken as a string",
        "parameter c is left out: the path does not name it",
        "its body is left out: GET has none",
    ]


def test_what_is_asked_for_is_chosen_by_name_path_or_tag() -> None:
    by_tag = imported_file("market_data.yaml", tags=["prices"])
    assert (by_tag.chosen, [m.name for m in by_tag.manifests]) == (
        3,
        ["getBars", "get-quotes", "get_trades_ticker"],
    )
    by_path = imported_file("broker.json", takes=lambda *names: "GET /orders" in names)
    assert [m.name for m in by_path.manifests] == ["listOrders"]
    by_id = imported_file("central_bank.yaml", takes=lambda *names: "data.get" in names)
    assert [m.name for m in by_id.manifests] == ["data_get"]


REMOTE = """
paths:
  /x: {get: {servers: [{url: "%s"}]}}
"""


@pytest.mark.parametrize(
    "server",
    [
        *("http://127.0.0.1/", "http://localhost:8080", "http://10.0.0.7/v1", "http://[::1]/"),
        *("http://169.254.169.254/latest", "http://metadata.google.internal/", "http://printer"),
        *(
            "http://nas.local",
            "http://0x7f000001/",
            "http://2130706433/",
            "http://[::ffff:10.1.1.1]",
        ),
        *(
            "http://224.0.0.1/",
            "http://0.0.0.0/",
            "http://127.0.0.1.:80/",
            "http://[64:ff9b::7f00:1]",
        ),
    ],
)
def test_a_fetched_document_names_no_private_server(server: str) -> None:
    found = imported_text(REMOTE % server, url="https://docs.example.com/openapi.yaml")
    assert found.manifests == []
    assert "is not public, and the document was fetched from elsewhere" in found.left_out[0].reason
    meant = imported_text(REMOTE % server, url="https://docs.example.com/o", base_url=server)
    assert len(meant.manifests) == 1, "the operator named it"
    own = imported_text(REMOTE % server)
    assert len(own.manifests) == 1, "the operator's own file names it"


def test_a_fetched_document_may_name_its_own_origin_or_a_public_one() -> None:
    url = "http://127.0.0.1:9000/docs/openapi.yaml"
    for server, base in (
        ("/v1", "http://127.0.0.1:9000/v1"),
        ("http://127.0.0.1:9000/v2/", "http://127.0.0.1:9000/v2"),
        ("https://api.example.com", "https://api.example.com"),
    ):
        (manifest,) = imported_text(REMOTE % server, url=url).manifests
        assert manifest.binding.base_url == base  # type: ignore[union-attr]
    (left,) = imported_text(REMOTE % "http://127.0.0.1:9001", url=url).left_out
    assert "is not public" in left.reason


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        ("https://user:pass@api.example.com", "a credential stands in the address of a server"),
        ("file:///etc/passwd", "is not of the form https://HOST/PATH"),
        ("gopher://api.example.com", "is not of the form https://HOST/PATH"),
        ("https://api.example.com/?x=1", "has more than a host and a path"),
        ("/v1", "names no host: give a base URL"),
        ("https://{tenant}.example.com", "has more than a host and a path"),
    ],
)
def test_a_server_that_can_not_be_called_is_the_reason(server: str, reason: str) -> None:
    (left,) = imported_text(REMOTE % server).left_out
    assert reason in left.reason


def test_a_token_url_of_a_fetched_document_obeys_the_same_rule() -> None:
    text = """
components:
  securitySchemes:
    o: {type: oauth2, flows: {clientCredentials: {tokenUrl: "http://10.0.0.1/token", scopes: {}}}}
paths:
  /x: {get: {security: [{o: []}]}}
"""
    url = "https://docs.example.com/openapi.yaml"
    (left,) = imported_text(text, url=url).left_out
    assert "'10.0.0.1' is not public" in left.reason
    assert len(imported_text(text).manifests) == 1


def test_texts_of_a_document_become_plain_words() -> None:
    found = imported_text(
        yaml.safe_dump(
            {
                "paths": {
                    "/x": {
                        "get": {
                            "summary": "Prices\x85 of \u202e all\n\nkinds",
                            "description": "<b>{{ 7*7 }}</b> `rm -rf`" + " word" * 1000,
                        }
                    }
                }
            }
        )
    )
    words = found.manifests[0].description
    assert words.startswith("Prices of all kinds. <b>{{ 7*7 }}</b> `rm -rf` word")
    assert len(words) == 1000
    assert words.isprintable()


def test_other_versions_are_refused() -> None:
    for text, reason in (
        (b'{"swagger": "2.0"}', "it is Swagger 2.0; convert it"),
        (b'{"openapi": "4.0.0"}', "OpenAPI 3.0 and 3.1 are read, not openapi '4.0.0'"),
        (b"[]", "it is no object"),
        (b"just words", "it is no object"),
        (b"", "it is no object"),
    ):
        with pytest.raises(OpenApiError, match=reason):
            read_document(text)
