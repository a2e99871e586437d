"""OpenAPI documents as providers: files and URLs, reload, REST, snapshots."""

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, resolver, web
from aiohttp.abc import ResolveResult
from anyio import to_thread

from gateway import Gateway, GatewaySettings
from gateway.server import http
from gateway.settings import SettingsError
from tests.support.commands import finport
from tests.support.upstreams import upstream

pytestmark = pytest.mark.anyio

SECRET = "planted-key-4711"  # noqa: S105 - no real one
KEY = {"type": "apiKey", "in": "query", "name": "apikey"}


def document(servers: str | None = None) -> dict[str, Any]:
    day = {"name": "day", "in": "query", "schema": {"type": "string", "format": "date"}}
    codes = {
        "name": "codes",
        "in": "query",
        "required": True,
        "explode": False,
        "schema": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "example": ["USD"],
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Desk", "version": "7"},
        "components": {"securitySchemes": {"key": KEY}},
        "security": [{"key": []}],
        **({"servers": [{"url": servers}]} if servers is not None else {}),
        "paths": {
            "/rates": {
                "get": {
                    "operationId": "rates",
                    "summary": "Rates of the funding desk",
                    "parameters": [day, codes],
                },
                "post": {"operationId": "setRates"},
                "trace": {},
            }
        },
    }


@asynccontextmanager
async def desk(folder: Path, said: dict[str, Any]) -> AsyncIterator[tuple[str, list[str]]]:
    """A server that has a document and answers its requests; what it was asked for."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/openapi.json":
            return web.json_response(said)
        if request.path == "/moved":
            return web.Response(status=302, headers={"Location": "/openapi.json"})
        if request.path == "/missing":
            return web.Response(status=404)
        asked.append(request.raw_path)
        return web.json_response([{"code": c} for c in request.query["codes"].split(",")])

    (folder / "desk.json").write_text(json.dumps(said))
    async with upstream(answer) as url:
        yield url, asked


def settings_of(folder: Path, provider: dict[str, Any], **said: Any) -> GatewaySettings:
    return GatewaySettings(
        catalog="none", cache_dir=folder / "cache", providers={"desk": provider}, **said
    )


async def test_a_document_is_fetched_and_its_own_server_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("DESK_KEY", SECRET)
    caplog.set_level(logging.INFO)
    async with desk(tmp_path, document("/")) as (url, asked):
        provider = {
            "openapi": f"{url}/openapi.json",
            "prefix": "desk_",
            "credentials": {"key": "DESK_KEY"},
            "domains": ["forex"],
            "timeliness": "daily",
        }
        async with Gateway.open(settings_of(tmp_path, provider)) as gateway:
            assert [m.name for m in gateway.catalog] == ["desk_rates", "desk_setRates"]
            manifest = gateway.catalog.get("desk_rates")
            assert manifest is not None
            assert (manifest.provider, manifest.timeliness) == ("desk", "daily")
            assert gateway.catalog.search.rank("funding desk rates", 1)[0][0] == "desk_rates"
            given = {"codes": ["EUR", "USD"], "day": "20240131"}
            first = await gateway.call("desk_rates", given)
            assert first.value == [{"code": "EUR"}, {"code": "USD"}]
            again = await gateway.call(
                "desk_rates", {"day": "2024-01-31", "codes": '["EUR","USD"]'}
            )
            assert again.source == "cached", "other spellings of the same arguments"
            assert asked == [f"/rates?day=2024-01-31&codes=EUR,USD&apikey={SECRET}"]
            refused = await gateway.call("desk_setRates", {})
            assert refused.code == "forbidden", "it may have side effects"
    told = [r.getMessage() for r in caplog.records if r.name == "finport"]
    assert told == [
        "provider desk: 1 of 3 operations are left out, such as TRACE /rates "
        "(TRACE is no method of a tool)"
    ]


async def test_tools_are_called_over_rest_and_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESK_KEY", SECRET)
    async with desk(tmp_path, document("/")) as (url, _):
        provider = {"openapi": f"{url}/openapi.json", "credentials": {"key": "DESK_KEY"}}
        settings = settings_of(tmp_path, provider)
        async with (
            Gateway.open(settings) as gateway,
            http.serve(gateway, "127.0.0.1", 0) as served,
            ClientSession() as client,
        ):
            body = {"codes": ["EUR"]}
            async with client.post(f"{served}/v1/tools/rates", json=body) as response:
                text = await response.text()
                assert json.loads(text)["data"] == [{"code": "EUR"}]
            async with client.get(f"{served}/v1/tools/rates") as response:
                described = await response.text()
            for field in ("codes", "funding desk"):
                assert field in described
            async with client.get(f"{served}/openapi.json") as response:
                whole = await response.text()
            assert SECRET not in text + described + whole


async def test_a_reload_reads_document_and_credentials_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESK_KEY", "first-secret")
    monkeypatch.setenv("DESK_NEW_KEY", "second-secret")
    said = document("")
    async with desk(tmp_path, said) as (url, asked):
        file = tmp_path / "desk.json"
        provider = {
            "openapi": str(file),
            "base_url": url,
            "credentials": {"key": "DESK_KEY"},
            "cache": False,
        }
        async with Gateway.open(settings_of(tmp_path, provider)) as gateway:
            assert (await gateway.call("rates", {"codes": ["USD"]})).ok
            said["paths"]["/more"] = {"get": {"operationId": "more"}}
            file.write_text(json.dumps(said))
            provider["credentials"] = {"key": "DESK_NEW_KEY"}
            await gateway.reload(settings_of(tmp_path, provider))
            assert gateway.catalog.get("more") is not None
            assert (await gateway.call("rates", {"codes": ["USD"]})).ok
            file.write_text("{")
            with pytest.raises(SettingsError, match=r"provider desk: .*it is no JSON"):
                await gateway.reload()
            assert gateway.catalog.get("more") is not None, "nothing has changed"
    assert [path.partition("apikey=")[2] for path in asked] == ["first-secret", "second-secret"]


async def test_a_snapshot_answers_without_network_and_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESK_KEY", SECRET)
    snapshot = tmp_path / "s.snap"
    async with desk(tmp_path, document("")) as (url, asked):
        provider = {
            "openapi": str(tmp_path / "desk.json"),
            "base_url": url,
            "credentials": {"key": "DESK_KEY"},
        }
        recording = settings_of(tmp_path, provider, mode="record", snapshot=snapshot)
        async with Gateway.open(recording) as gateway:
            recorded = await gateway.call("rates", {"codes": ["USD"]})
            assert recorded.ok, recorded.message
        assert len(asked) == 1
    monkeypatch.delenv("DESK_KEY")
    settings = settings_of(tmp_path / "other", provider, mode="offline", snapshot=snapshot)
    async with Gateway.open(settings) as gateway:
        replayed = await gateway.call("rates", {"codes": ["USD"]})
        assert (replayed.source, replayed.value) == ("replayed", recorded.value)
        other = await gateway.call("rates", {"codes": ["EUR"]})
        assert other.code == "not_in_snapshot"
    assert SECRET.encode() not in snapshot.read_bytes()


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/moved", "its server answers 302, and redirects are not followed"),
        ("/missing", "its server answers 404"),
        ("http://127.0.0.1:9/openapi.json", "the upstream refuses connections"),
        ("http://user:pw@127.0.0.1/x", "a credential stands in its URL"),
        ("ftp://127.0.0.1/x", "a document is a file, or is fetched over http or https"),
        ("nowhere.yaml", "nowhere.yaml: No such file or directory"),
    ],
)
async def test_a_document_that_can_not_be_had_is_an_error_of_the_settings(
    path: str, reason: str, tmp_path: Path
) -> None:
    async with desk(tmp_path, document("/")) as (url, _):
        place = f"{url}{path}" if path.startswith("/") else path
        with pytest.raises(SettingsError, match=f"provider desk: .*{reason}"):
            async with Gateway.open(settings_of(tmp_path, {"openapi": place})):
                pass


async def test_a_document_is_not_fetched_from_a_private_address_of_a_public_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def resolve(_: object, host: str, port: int = 0, family: Any = 2) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host, host="127.0.0.1", port=port, family=family, proto=0, flags=0
            )
        ]

    monkeypatch.setattr(resolver.DefaultResolver, "resolve", resolve)
    async with desk(tmp_path, document("/")) as (url, _):
        place = url.replace("127.0.0.1", "docs.example.com") + "/openapi.json"
        with pytest.raises(SettingsError, match="has an address of a private network"):
            async with Gateway.open(settings_of(tmp_path, {"openapi": place})):
                pass
        allowed = settings_of(tmp_path, {"openapi": place, "allow_private": True})
        async with Gateway.open(allowed) as gateway:
            assert len(gateway.catalog) == 2


async def test_a_fetched_document_can_not_send_calls_into_the_network(tmp_path: Path) -> None:
    async with desk(tmp_path, document("http://127.0.0.1:1/")) as (url, _):
        with pytest.raises(SettingsError, match="none of its 3 operations is imported: its server"):
            async with Gateway.open(settings_of(tmp_path, {"openapi": f"{url}/openapi.json"})):
                pass


async def test_imported_manifests_are_served_with_the_credentials_of_a_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `finport manifests import openapi` writes, at another base URL."""
    monkeypatch.setenv("DESK_KEY", SECRET)
    async with desk(tmp_path, document("https://desk.example.com/v1")) as (url, asked):
        words = ("manifests", "import", "openapi", str(tmp_path / "desk.json"))
        options = ("--prefix", "desk_", "--out", str(tmp_path / "made"))
        made = await to_thread.run_sync(finport, *words, *options)
        assert made.returncode == 0, made.stderr
        provider = {
            "manifests": str(tmp_path / "made"),
            "base_url": f"{url}/v1",
            "credentials": {"key": "DESK_KEY"},
        }
        async with Gateway.open(settings_of(tmp_path, provider)) as gateway:
            result = await gateway.call("desk_rates", {"codes": ["USD"]})
            assert result.ok, result.message
    assert asked == [f"/v1/rates?codes=USD&apikey={SECRET}"]


async def test_a_document_is_real_where_the_packaged_upstreams_are_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESK_KEY", SECRET)
    async with desk(tmp_path, document("/")) as (url, _):
        provider = {"openapi": f"{url}/openapi.json", "credentials": {"key": "DESK_KEY"}}
        settings = settings_of(tmp_path, provider, upstream="simulated")
        async with Gateway.open(settings) as gateway:
            result = await gateway.call("rates", {"codes": ["USD"]})
            assert (result.value, result.upstream) == ([{"code": "USD"}], "live")
            hosts = gateway.answers.hosts.state()
            assert [*hosts] == [url.removeprefix("http://")]
