"""A document from anyone costs an error text or a reason, never the process."""

import json
import time
from typing import Any

import pytest

from manifests import Signature
from manifests.openapi import document, importing
from manifests.openapi.document import OpenApiError, read_document
from manifests.openapi.importing import Imported, imported

HEAD = "openapi: 3.1.0\ninfo: {title: T, version: '1'}\nservers: [{url: https://a.example.com}]\n"


WIDE = {f"p{n}": {"$ref": "#/components/schemas/Wide"} for n in range(50)}


def made(**fields: Any) -> Imported:
    whole = {
        "openapi": "3.1.0",
        "info": {"title": "T", "version": "1"},
        "servers": [{"url": "https://a.example.com"}],
        **fields,
    }
    return imported(read_document(json.dumps(whole).encode()))


def bomb() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (bomb(), "values once its aliases are replaced"),
        ("a: &a [*a]", "has no anchor before it"),
        ("a: !!python/object/apply:os.system [id]", "none of OpenAPI's"),
        ("a: !include /etc/passwd", "none of OpenAPI's"),
        ("a: 1\na: 2", "the name 'a' stands twice"),
        ("[" * 100_000, "nested too deeply"),
        ("- " * 100_000, "nested too deeply"),
        ("a: {" * 5_000, "nested too deeply"),
        ("? [a]\n: b", "a name in it is no text"),
        ("a: b\n---\nc: d", "several documents"),
        ("a: \x00", "no YAML"),
        ("a: 'b", "no YAML"),
        ('{"a": 1, "a": 2}', "the name 'a' stands twice"),
        ('{"a": NaN}', "NaN is no JSON"),
        ('{"a": ' + "[" * 100_000, "nested too deeply"),
        ('{"a": ' + "9" * 5_000 + "}", "no JSON"),
        ('{"a": "b"', "no JSON"),
        ("a: \xff".encode("latin-1"), "no YAML"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_a_hostile_text_is_refused(text: str | bytes, reason: str) -> None:
    began = time.monotonic()
    with pytest.raises(OpenApiError, match=reason):
        read_document(text if isinstance(text, bytes) else text.encode())
    assert time.monotonic() - began < 10


def test_size_and_time_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "MAX_BYTES", 2**20)
    with pytest.raises(OpenApiError, match="it is over 1 MiB"):
        read_document(b"{" + b" " * 2**20)
    with pytest.raises(OpenApiError, match="reading it takes more than 0 s"):
        read_document(b"- x\n" * 100_000, read_s=0)
    whole = read_document(f"{HEAD}paths: {{/x: {{get: {{}}}}}}".encode())
    with pytest.raises(OpenApiError, match="importing it takes more than 0 s"):
        imported(whole, import_s=0)


def test_any_number_of_paths_is_counted_and_a_part_of_them_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importing, "MAX_TOOLS", 100)
    paths = ",".join(f'"/p{number}":{{"get":{{}}}}' for number in range(30_000))
    head = '{"openapi":"3.1.0","servers":[{"url":"https://a.example.com"}],"paths":{'
    text = f"{head}{paths}}}}}"
    began = time.process_time()
    found = imported(read_document(text.encode()))
    assert (found.present, len(found.manifests)) == (30_000, 100)
    (left,) = found.left_out
    assert (left.operation, left.reason) == ("29900 more", "at most 100 operations become tools")
    assert time.process_time() - began < 6


def test_references_that_recur_or_lead_away_cost_a_reason() -> None:
    found = made(
        components={
            "parameters": {"A": {"$ref": "#/components/parameters/A"}},
            "schemas": {
                "Loop": {"$ref": "#/components/schemas/Loop"},
                "Wide": {"properties": WIDE},
            },
        },
        paths={
            "/1": {"get": {"parameters": [{"$ref": "#/components/parameters/A"}]}},
            "/2": {"get": {"parameters": [_query({"$ref": "#/components/schemas/Loop"})]}},
            "/3": {"get": {"parameters": [_query({"$ref": "http://169.254.169.254/schema"})]}},
            "/4": {"get": {"parameters": [_query({"$ref": "file:///etc/passwd"})]}},
            "/5": {"get": {"parameters": [_query({"$ref": "#/components/schemas/Wide"})]}},
            "/6": {"$ref": "#/paths/~16"},
            "/7": {"get": {"parameters": [{"$ref": "#/paths/~17/get/parameters/99999999999999"}]}},
        },
    )
    assert [m.name for m in found.manifests] == ["get_5"], "written out as far as it is short"
    assert {one.operation: one.reason for one in found.left_out} == {
        "GET /1": "a reference leads to itself",
        "GET /2": "parameter q: its schema recurs without an end, or is too long",
        "GET /3": "parameter q: it refers to 'http://169.254.169.254/schema', which is not in the"
        " document",
        "GET /4": "parameter q: it refers to 'file:///etc/passwd', which is not in the document",
        "/6": "a reference leads to itself",
        "GET /7": "it refers to '#/paths/~17/get/parameters/99999999999999', which is not there",
    }


def _query(schema: object, **said: object) -> dict[str, object]:
    return {"name": "q", "in": "query", "required": True, "schema": schema, **said}


def test_a_pattern_is_never_run() -> None:
    evil = {"type": "string", "pattern": "^(a+)+$", "example": "a" * 40 + "!"}
    nested = {"type": "array", "items": evil, "example": ["a" * 40 + "!"]}
    found = made(
        paths={
            "/x": {"get": {"parameters": [_query(evil)]}},
            "/y": {"get": {"parameters": [_query(nested)]}},
            "/z": {"get": {"parameters": [_query({"type": "string", "pattern": "(?=" * 500})]}},
            "/w": {"get": {"parameters": [_query({"type": "string", "pattern": "a{99999999}"})]}},
        }
    )
    assert len(found.manifests) == 4
    began = time.monotonic()
    Signature(found.manifests[0]).bind({"q": "a" * 60 + "!"})
    Signature(found.manifests[1]).bind({"q": ["a" * 60 + "!"]})
    assert time.monotonic() - began < 1


def _alternatives(depth: int) -> dict[str, object]:
    if not depth:
        return {"type": "integer", "minimum": 5, "maximum": 4}
    return {"anyOf": [{"type": "array", "minItems": 1, "items": _alternatives(depth - 1)}] * 8}


def test_alternatives_within_alternatives_cost_a_reason() -> None:
    began = time.monotonic()
    simple = _query({"type": "integer"})
    found = made(
        paths={
            "/x": {"get": {"parameters": [_query(_alternatives(2))]}},
            "/y": {"get": {"parameters": [simple]}},
        }
    )
    assert time.monotonic() - began < 3
    assert [m.name for m in found.manifests] == ["get_y"]
    (left,) = found.left_out
    assert left.reason.endswith("to find an example of what it requires takes too long")


def test_repeats_within_repeats_of_a_pattern_make_no_text() -> None:
    pattern = "((((a{200}){200}){200}){200})"
    query = _query({"type": "string", "pattern": pattern})
    (manifest,) = made(paths={"/x": {"get": {"parameters": [query]}}}).manifests
    assert manifest.parameters[0].example == "text"


@pytest.mark.parametrize("least", [20, 100, 2**40])
def test_lists_within_lists_make_no_long_example(least: int) -> None:
    schema: dict[str, object] = {"type": "string"}
    for _ in range(8):
        schema = {"type": "array", "minItems": least, "items": schema}
    began = time.monotonic()
    found = made(paths={"/x": {"get": {"parameters": [_query(schema)]}}})
    assert len(found.left_out) == 1
    assert time.monotonic() - began < 3


def test_numbers_that_no_quotient_can_hold_cost_one_operation_at_most() -> None:
    odd = _query({"type": "number", "multipleOf": 1e-310, "minimum": 2**52})
    whole = _query({"type": "integer", "multipleOf": 1e-310, "minimum": 2**52})
    paths = {f"/{n}": {"get": {"parameters": [one]}} for n, one in enumerate((odd, whole))}
    found = made(paths={**paths, "/y": {"get": {"parameters": [_query({"type": "integer"})]}}})
    assert found.manifests[-1].name == "get_y"
    assert len(found.manifests) + len(found.left_out) == 3


def test_an_enum_of_any_length_is_cut() -> None:
    enum = _query({"type": "integer", "enum": [*range(100_000)]})
    (manifest,) = made(paths={"/x": {"get": {"parameters": [enum]}}}).manifests
    assert manifest.parameters[0].enum is None
    assert "One of 100000 values." in manifest.parameters[0].description


def test_what_many_operations_share_does_not_multiply_without_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importing, "MAX_SIZE", 2**20)
    wide = {f"p{n}": {"type": "string", "description": "x" * 200} for n in range(100)}
    long = {"type": "string", "enum": ["x" * 2**20, "y"], "example": "z" * 2**20}
    whole = {
        "schemas": {"Wide": {"type": "object", "properties": wide}, "Long": long},
    }
    parameters = [
        {**_query({"$ref": "#/components/schemas/Wide"}, style="deepObject"), "name": f"q{n}"}
        for n in range(5)
    ]
    parameters.append({**_query({"$ref": "#/components/schemas/Long"}), "name": "long"})
    paths = {f"/{n}": {"get": {"parameters": parameters}} for n in range(20)}
    found = made(components={**whole}, paths=paths)
    assert 2 < len(found.manifests) < 20
    assert found.left_out[-1].reason == "the schemas of all tools before it are too long"
    assert len(found.manifests[0].parameters[-1].model_dump_json()) < 500


@pytest.mark.parametrize(
    "operation",
    [
        *(
            None,
            7,
            "x",
            [],
            {"parameters": 7},
            {"parameters": [7]},
            {"parameters": [{"in": "query"}]},
        ),
        {
            "parameters": [
                {"name": "a", "in": "header", "schema": {}, "required": True, "style": "x"}
            ]
        },
        {
            "parameters": [
                {"name": "a\r\nX-Evil: 1", "in": "header", "required": True, "schema": {}}
            ]
        },
        {"parameters": [{"name": "Host", "in": "header", "required": True, "schema": {}}]},
        {"parameters": [{"name": "a", "in": "query", "required": True, "schema": 7}]},
        {"parameters": [{"name": "a", "in": "query", "required": True, "schema": False}]},
        {"parameters": [_query({"type": "integer", "minimum": 10**400, "maximum": "x"})]},
        {"parameters": [_query({"type": ["null"]})]},
        {"parameters": [_query({"enum": [10**30, 1e308, None]})]},
        {"parameters": [_query({"type": "string", "enum": [7]})]},
        {"parameters": [_query({"type": "number", "multipleOf": 0, "exclusiveMinimum": True})]},
        {"parameters": [_query({"anyOf": [], "items": [], "required": 7, "properties": []})]},
        {"parameters": [{"name": "\ud800", "in": "query", "schema": {"default": "\ud800"}}]},
        {"parameters": [{"name": "a", "in": "query", "content": {"application/json": 7}}]},
        *({"security": 7}, {"security": [7]}, {"security": [{"missing": []}]}, {"servers": 7}),
        *({"servers": [7]}, {"responses": 7}, {"responses": {"200": 7}}, {"tags": 7}),
        {"responses": {"200": {"content": {"application/json": {"schema": {"type": "array"}}}}}},
        {"operationId": "\x1b[31m;rm -rf /", "summary": {"a": 1}, "description": 7},
        {"requestBody": 7},
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_not_openapi_is_a_reason_or_ignored(operation: object) -> None:
    for method in ("get", "post"):
        found = made(paths={"/x/{a}": {}, "/y": {method: operation}})
        assert found.present == 1
        assert len(found.manifests) + len(found.left_out) == 1
        for manifest in found.manifests:
            assert manifest.revision
            Signature(manifest)
        assert all(one.reason.isprintable() for one in found.left_out)


@pytest.mark.parametrize(
    "path",
    [
        "x",
        "/a?b=c",
        "/a#b",
        "/a/../b",
        "/{a",
        "/{a}{b",
        "/a}/b",
        "/a b",
        "/\x00",
        "/{a}/{a}",
        "//evil.example.com",
    ],
)
def test_a_path_stays_below_its_server(path: str) -> None:
    parameter = {"name": "a", "in": "path", "schema": {"type": "string"}}
    found = made(paths={path: {"get": {"parameters": [parameter] if "{a}/" in path else []}}})
    if path == "//evil.example.com":
        assert found.manifests[0].upstream == "a.example.com"
    else:
        assert found.manifests == []
