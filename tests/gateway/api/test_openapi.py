"""The OpenAPI description: valid by its own rules, and true of what the API takes and gives."""

import gzip
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from gateway import ErrorCode
from manifests import Catalog, Selection
from manifests.export import ExportFormat, export
from tests.support.commands import serving
from tests.support.gateways import HIST, ServedGateway, open_served_gateway, play
from tests.support.mcp_messages import META, request


class Described:
    """A description, and what it says of answers."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self._validators: dict[str, Draft202012Validator] = {}

    def check(self, path: str, method: str, status: int, headers: Any, text: bytes) -> None:
        """The status, the media type and the body are as the description says."""
        responses = self.document["paths"][path][method.lower()]["responses"]
        assert str(status) in responses, f"{method} {path} gives {status}: {text[:200]!r}"
        content = responses[str(status)].get("content")
        if content is None:
            assert text == b""
            return
        kinds = {kind.partition(";")[0]: shape["schema"] for kind, shape in content.items()}
        kind = headers["Content-Type"].partition(";")[0]
        if kind == "application/json":
            self._validator(kinds[kind]).validate(json.loads(text))
        else:
            assert kinds[kind] == {"type": "string"}

    def _validator(self, schema: dict[str, Any]) -> Draft202012Validator:
        key = json.dumps(schema)
        if key not in self._validators:
            whole = {**schema, "components": self.document["components"]}
            self._validators[key] = Draft202012Validator(whole)
        return self._validators[key]


async def described(served: ServedGateway, query: str = "") -> Described:
    status, document = await served.ask(f"/openapi.json{query}")
    assert status == 200
    return Described(document)


def every_schema(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from document["components"]["schemas"].values()
    for path in document["paths"].values():
        for operation in path.values():
            for parameter in operation.get("parameters", ()):
                yield parameter["schema"]
            bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
            for body in bodies:
                for content in body.get("content", {}).values():
                    yield content["schema"]


@pytest.mark.anyio
@pytest.mark.parametrize("query", ["", "?tools=all", "?tools=domain:bond"])
async def test_the_description_is_valid_openapi(
    catalog: Catalog, served: ServedGateway, query: str
) -> None:
    document = (await described(served, query)).document
    errors = list(OPENAPI_31_VALIDATOR.iter_errors(document))
    assert errors == []
    checked = {json.dumps(schema, sort_keys=True) for schema in every_schema(document)}
    for schema in checked:
        Draft202012Validator.check_schema(json.loads(schema))
    text = json.dumps(document)
    for model in set(re.findall(r'"\$ref": "([^"]+)"', text)):
        assert model.removeprefix("#/components/schemas/") in document["components"]["schemas"]
    operations = [(path, o) for path, item in document["paths"].items() for o in item.values()]
    ids = [operation["operationId"] for _, operation in operations]
    assert len(ids) == len(set(ids))
    for path, operation in operations:
        parameters = operation["parameters"]
        assert {p["name"] for p in parameters if p["in"] == "path"} == {
            *re.findall("{(.+?)}", path)
        }
    tools = {path.removeprefix("/v1/tools/") for path in document["paths"]} & {
        m.name for m in catalog
    }
    chosen = Selection.parse(query.partition("=")[2] or "names:none")
    may_use = served.local.gateway.may_use
    assert tools == {
        m.name for m in catalog if m in chosen and m.unavailable is None and may_use(m, None)
    }


def every_object(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        value = [*value.values()]
    if isinstance(value, list):
        for one in value:
            yield from every_object(one)


@pytest.mark.anyio
@pytest.mark.parametrize("query", ["", "?tools=all"])
async def test_generators_of_clients_find_what_they_need(served: ServedGateway, query: str) -> None:
    document = (await described(served, query)).document
    assert document["servers"] == [{"url": served.url}]
    assert all("items" in one for one in every_object(document) if one.get("type") == "array")
    tags = {tag["name"] for tag in document["tags"]}
    for path, item in document["paths"].items():
        for operation in item.values():
            (tag,) = operation["tags"]
            assert tag in tags
            told = operation["responses"].get("401")
            is_open = path in ("/healthz", "/readyz")
            assert (told is None) == is_open, "a key may be needed later"
            assert is_open or "WWW-Authenticate" in told["headers"]


@pytest.mark.anyio
async def test_what_is_said_of_a_tool_is_what_its_manifest_says(
    catalog: Catalog, served_whole: ServedGateway
) -> None:
    document = (await described(served_whole, "?tools=all")).document
    for manifest in catalog:
        if manifest.unavailable is not None:
            continue
        (operation,) = document["paths"][f"/v1/tools/{manifest.name}"].values()
        body = operation["requestBody"]
        schema = body["content"]["application/json"]["schema"]
        Draft202012Validator(schema).validate(manifest.sample())
        assert body["required"] == bool(schema["required"])
        assert operation["operationId"] == manifest.name


# Path, method, target, body, status. `<h>` is the handle of a shortened table.
ASKED: tuple[tuple[str, str, str, Any, int], ...] = (
    ("/v1/tools", "GET", "/v1/tools?limit=1000", None, 200),
    ("/v1/tools", "GET", "/v1/tools?q=bond&domain=bond&limit=3", None, 200),
    ("/v1/tools", "GET", "/v1/tools?domain=stocks", None, 400),
    ("/v1/tools/{name}", "GET", "/v1/tools/get_coin", None, 200),
    ("/v1/tools/{name}", "GET", "/v1/tools/stock_zh_a_hist", None, 200),
    ("/v1/tools/{name}", "GET", "/v1/tools/nothing", None, 404),
    ("/v1/tools/{name}", "POST", "/v1/tools/get_coin", {"uuid": "x"}, 200),
    ("/v1/tools/{name}", "POST", "/v1/tools/stock_zh_a_hist?max_rows=2", HIST, 200),
    ("/v1/tools/{name}", "POST", "/v1/tools/stock_zh_a_hist", {**HIST, "Symbol ": "1"}, 422),
    ("/v1/tools/{name}", "POST", "/v1/tools/get_coin", {}, 422),
    ("/v1/tools/{name}", "POST", "/v1/tools/get_coin", [], 400),
    ("/v1/tools/{name}", "POST", "/v1/tools/get_coin?rows=1", {}, 400),
    ("/v1/tools/{name}", "POST", "/v1/tools/get_coin", b" " * (2**20 + 1), 413),
    ("/v1/tools/{name}", "POST", "/v1/tools/nothing", {}, 404),
    ("/v1/tools/{name}", "POST", "/v1/tools/get_qhkc_index", {}, 410),
    ("/v1/tools/{name}", "POST", "/v1/tools/get_coin?timeout_s=1e-6", {"uuid": "y"}, 504),
    ("/v1/schemas/{format}", "GET", "/v1/schemas/openai?limit=3&strict=true", None, 200),
    ("/v1/schemas/{format}", "GET", "/v1/schemas/mcp?q=bond&tools=domain:bond", None, 200),
    ("/v1/schemas/{format}", "GET", "/v1/schemas/yaml", None, 404),
    ("/v1/schemas/{format}", "GET", "/v1/schemas/openai?tools=bonds", None, 400),
    ("/v1/results/{handle}", "GET", "/v1/results/<h>?offset=1&limit=5", None, 200),
    ("/v1/results/{handle}", "GET", "/v1/results/<h>?offset=900", None, 200),
    ("/v1/results/{handle}", "GET", "/v1/results/0123", None, 404),
    ("/v1/results/{handle}", "GET", "/v1/results/0123?limit=0", None, 400),
    ("/v1/calls", "POST", "/v1/calls", [{"tool": "get_coin"}, 5], 200),
    ("/v1/calls", "POST", "/v1/calls?concurrency=0", [], 400),
    ("/v1/calls", "POST", "/v1/calls", [" " * 2**20], 413),
    ("/mcp", "POST", "/mcp", request("tools/list"), 200),
    ("/mcp", "POST", "/mcp", request("nothing"), 200),
    ("/mcp", "POST", "/mcp", [request("ping"), 5], 200),
    ("/mcp", "POST", "/mcp", {"jsonrpc": "2.0", "method": "notifications/x"}, 202),
    ("/mcp", "POST", "/mcp", b"{", 400),
    ("/mcp", "POST", "/mcp", request("tools/list", {"_meta": META}), 400),
    ("/mcp", "POST", "/mcp?tools=bonds", request("ping"), 400),
    ("/mcp", "POST", "/mcp", b" " * (2**20 + 1), 413),
    ("/healthz", "GET", "/healthz", None, 200),
    ("/readyz", "GET", "/readyz", None, 200),
    ("/metrics", "GET", "/metrics", None, 200),
    ("/openapi.json", "GET", "/openapi.json?tools=domain:esg", None, 200),
    ("/openapi.json", "GET", "/openapi.json?tools=", None, 400),
)


@pytest.mark.anyio
async def test_every_route_answers_as_it_is_described(served: ServedGateway) -> None:
    said = await described(served)
    _, shortened = await served.call("stock_zh_a_hist?max_rows=2", HIST)
    for path, method, target, body, status in ASKED:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        url = served.url + target.replace("<h>", shortened["handle"])
        zipped = (
            {} if data is None else {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        )
        data = data and gzip.compress(data)
        async with served.client.request(method, url, data=data, headers=zipped) as got:
            text = await got.text()
            assert got.status == status, (method, target, text)
            said.check(path, method, got.status, got.headers, text.encode())
            assert "Traceback" not in text
            if status >= 400 and path != "/mcp":
                code = json.loads(text)["error"]["code"]
                assert ErrorCode[code.upper()].http_status == status
    assert {path for path, *_ in ASKED} == said.document["paths"].keys()


@pytest.mark.anyio
async def test_errors_of_upstreams_are_described_as_well(fresh: ServedGateway) -> None:
    said = await described(fresh)
    rates = {"busy": 503, "key_refused": 401, "html": 200, "empty": 200, "quota_exhausted": 429}
    seen = set()
    for number, kind in enumerate(rates):
        play(fresh.local, rates={kind: 1.0})
        url = f"{fresh.url}/v1/tools/get_coin?timeout_s=60"
        async with fresh.client.post(url, json={"uuid": f"c{number}"}) as got:
            said.check("/v1/tools/{name}", "POST", got.status, got.headers, await got.read())
            seen.add(got.status)
    assert len(seen) >= 3
    assert min(seen) >= 400


@pytest.mark.anyio
async def test_keys_are_described_where_they_are_needed(catalog: Catalog, tmp_path: Path) -> None:
    async with open_served_gateway(catalog, tmp_path, api_keys=("one-key-0123456789",)) as served:
        said = await described(served)
        schemes = said.document["components"]["securitySchemes"]
        assert schemes["key"]["scheme"] == "bearer"
        assert schemes["api_key"] == {"type": "apiKey", "in": "header", "name": "X-Api-Key"}
        for path, method, target in (
            ("/v1/tools", "GET", "/v1/tools"),
            ("/v1/tools/{name}", "POST", "/v1/tools/get_coin"),
            ("/v1/calls", "POST", "/v1/calls"),
            ("/mcp", "POST", "/mcp"),
        ):
            for headers, status in (({}, 401), ({"Host": "evil.example"}, 403)):
                url = served.url + target
                async with served.client.request(method, url, headers=headers) as got:
                    assert got.status == status
                    said.check(path, method, got.status, got.headers, await got.read())
            security = said.document["paths"][path][method.lower()]["security"]
            assert security == [{"key": []}, {"api_key": []}]
        assert "security" not in said.document["paths"]["/healthz"]["get"]
        assert list(OPENAPI_31_VALIDATOR.iter_errors(said.document)) == []


@pytest.fixture(scope="module")
async def served_whole(
    catalog: Catalog, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ServedGateway]:
    """A served gateway with all tools."""
    folder = tmp_path_factory.mktemp("whole")
    async with open_served_gateway(catalog, folder, allow_transactional=True) as served:
        yield served


@pytest.mark.anyio
@pytest.mark.parametrize("format_", ["openai", "anthropic", "mcp", "jsonschema"])
async def test_schemas_are_the_exports_of_all_tools_that_can_be_called(
    catalog: Catalog, served_whole: ServedGateway, format_: ExportFormat
) -> None:
    """Exports fit the types of the vendors' SDKs, for all tools: tests/manifests/test_export.py."""
    callable_ = [manifest for manifest in catalog if manifest.unavailable is None]
    assert len(callable_) == 752
    for query, strict in (("", False), ("?strict=true", True))[: 1 + (format_ == "openai")]:
        exports = [export(manifest, format_, strict=strict) for manifest in callable_]
        _, schemas = await served_whole.ask(f"/v1/schemas/{format_}{query}")
        assert schemas == json.loads(json.dumps(exports))


SCHEMATHESIS = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 502, 503, 504]

# Which columns a table has is in no pattern.
[[operations]]
include-path-regex = "^/v1/results/"
checks.positive_data_acceptance.expected-statuses = ["2xx", "403", "404", "422", "429", "5xx"]

# That a tool's name is one of the catalogue is in no pattern.
[[operations]]
include-path-regex = "^/(mcp|v1/schemas/.*|openapi.json)$"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "401", "403", "404", "5xx"]

# That a budget is in tokens or in characters, not in both, is in no schema of a single parameter.
[[operations]]
include-path-regex = "^/v1/calls$"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "404", "410", "422", "5xx"]

# What a tool takes is read with more sense than its schema has, and in forms it can't express. A
# tool's own path is also served by GET, which is described under {name} alone.
[[operations]]
include-path-regex = "^/v1/tools/"
include-method = "POST"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "404", "410", "422", "5xx"]
checks.negative_data_rejection.enabled = false
checks.allow_header_conformance.enabled = false
"""


def run_schemathesis(folder: Path, query: str, *options: str) -> int:
    """How many cases were tried, all of which passed."""
    (folder / "schemathesis.toml").write_text(SCHEMATHESIS)
    report = folder / "report.json"
    with serving(folder) as (_, url):
        done = subprocess.run(
            [
                *(f"{Path(sys.executable).parent}/st", "run", f"{url}/openapi.json{query}"),
                *("--seed", "20260601", "--generation-database", "none", "--no-color"),
                *("--continue-on-failure", "--no-shrink", "--report", "json"),
                *("--report-json-path", str(report), "--request-timeout", "60"),
                *("--suppress-health-check", "too_slow", *options),
            ],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    cases: int = json.loads(report.read_text())["test_cases"]["generated"]
    return cases


def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    phases = ("--phases", "examples,coverage,fuzzing", "-n", "2")
    assert run_schemathesis(tmp_path, "?tools=names:get_coin", *phases) > 500


@pytest.mark.soak
def test_schemathesis_finds_nothing_in_a_long_run(tmp_path: Path) -> None:
    routes = run_schemathesis(tmp_path, "", "-n", "1000")
    tools = run_schemathesis(tmp_path, "?tools=all", "-n", "20")
    print(f"\nschemathesis: {routes} cases of all routes, {tools} of these and 752 tools")  # noqa: T201
    assert routes + tools > 50_000
