"""`finport manifests import openapi`, and `--openapi` of other commands."""

import json
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from manifests import Catalog
from manifests.catalog import text_of
from tests.support.commands import finport
from tests.support.servers import json_server

DOCUMENTS = Path(__file__).parents[2] / "manifests" / "openapi" / "documents"

IMPORT = ("manifests", "import", "openapi")


def test_it_tells_what_is_imported_and_what_is_not(tmp_path: Path) -> None:
    file = str(DOCUMENTS / "broker.json")
    done = finport(*IMPORT, file, "--prefix", "acme_", "--out", "made")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:3] == [
        "Example Broker 2026-01: imported 10 of 13 operations",
        "written to made/acme.json",
        "left out: POST /chains: its body: its schema recurs without an end, or is too long",
    ]
    written = tmp_path / "made" / "acme.json"
    catalog = Catalog.load(written)
    assert written.read_text() == text_of(catalog), "the standard form"
    assert catalog.get("acme_createOrder") is not None
    again = finport(*IMPORT, file, "--prefix", "acme_", "--out", "made")
    assert (again.returncode, "--force replaces it" in again.stderr) == (1, True)
    assert finport(*IMPORT, file, "--prefix", "acme_", "--out", "made", "--force").returncode == 0


def test_a_part_is_imported_and_told_as_json() -> None:
    file = str(DOCUMENTS / "market_data.yaml")
    done = finport(*IMPORT, file, "--only", "GET /quotes*", "--only", "getBars", "--json")
    told = json.loads(done.stdout)
    assert (told["imported"], told["operations"], told["chosen"], told["file"]) == (
        ["getBars", "get-quotes"],
        8,
        2,
        None,
    )
    assert told["left_out"] == []
    tagged = finport(*IMPORT, file, "--tags", "reference")
    assert "imported 1 of 8 operations (2 were asked for)" in tagged.stdout
    none = finport(*IMPORT, file, "--tags", "nothing")
    assert (none.returncode, "imported 0 of 8" in none.stdout) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("nowhere.yaml",), 1, "nowhere.yaml: No such file or directory"),
        (("http://127.0.0.1:9/x",), 1, "it can't be fetched"),
        (("x.yaml", "--prefix", "a b"), 2, "prefix: String should match pattern"),
        (("x.yaml", "--base-url", "ftp://x"), 2, "is not of the form https://HOST/PATH"),
    ],
)
def test_a_wrong_word_is_told(arguments: tuple[str, ...], code: int, text: str) -> None:
    done = finport(*IMPORT, *arguments)
    assert (done.returncode, text in done.stderr) == (code, True), done.stderr


def test_texts_of_a_document_do_not_steer_a_terminal(tmp_path: Path) -> None:
    paths = {"/\x1b[31m": {"trace": {}}, "/x": {"get": {"summary": "\x1b]0;owned\x07"}}}
    said = {"openapi": "3.0.0", "info": {"title": "\x1b[2J", "version": "\x9b1"}, "paths": paths}
    (tmp_path / "x.json").write_text(json.dumps(said))
    done = finport(*IMPORT, "x.json", "--base-url", "http://localhost:1")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert "\x9b" not in done.stdout


def test_tools_of_a_document_are_listed_and_called() -> None:
    def answer(request: BaseHTTPRequestHandler) -> tuple[int, object]:
        return 200, {"asked": request.path}

    with json_server(answer) as url:
        said = json.loads((DOCUMENTS / "broker.json").read_text())
        said["servers"] = [{"url": url}]
        Path("broker.json").write_text(json.dumps(said))  # in the test's own folder
        given = ("--catalog", "none", "--openapi", "broker.json")
        listed = finport("tools", *given)
        assert listed.stdout.count("createOrder") == 1, listed.stderr
        shown = finport("tools", "show", "listOrders", *given, "--json")
        assert json.loads(shown.stdout)["name"] == "listOrders"
        called = finport("call", "listOrders", "status=open", 'symbols=["A","B"]', *given)
        assert "/orders?status=open&symbols=A,B" in called.stdout, called.stderr + called.stdout
