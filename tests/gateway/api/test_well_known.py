"""What a client finds that meets 401 and looks for a way to a key."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider, TokenStorage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from manifests import Catalog
from tests.support.gateways import ServedGateway, open_served_gateway

pytestmark = pytest.mark.anyio

PROTECTED = "/.well-known/oauth-protected-resource"
HOW = (
    "no key was given: send `Authorization: Bearer KEY` or `x-api-key: KEY`; a key comes from the "
    "gateway's operator, not from OAuth"
)
ANY_HOST = {"Host": "gw.example", "X-Forwarded-Proto": "https"}


@pytest.fixture(scope="module")
async def kept(
    catalog: Catalog, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ServedGateway]:
    given = {"api_keys": ("one-key-0123456789",), "allowed_hosts": ("gw.example",)}
    async with open_served_gateway(catalog, tmp_path_factory.mktemp("kept"), **given) as served:
        yield served


async def ask(
    served: ServedGateway, path: str, headers: dict[str, str] | None = None, method: str = "GET"
) -> tuple[int, str, Any]:
    async with served.client.request(method, served.url + path, headers=headers) as got:
        return got.status, got.headers.get("WWW-Authenticate", ""), await got.json()


@pytest.mark.parametrize(
    "path",
    [
        *("oauth-authorization-server", "oauth-authorization-server/mcp", "openid-configuration"),
        *("oauth-protected-resource/v1/tools", "oauth-protected-resource/mcp/", ""),
        "ai-plugin.json",
    ],
)
async def test_where_nothing_is_it_says_so_without_a_key(
    served: ServedGateway, kept: ServedGateway, path: str
) -> None:
    for one in (served, kept):
        status, challenge, said = await ask(one, f"/.well-known/{path}")
        assert (status, said["error"]["code"], challenge) == (404, "not_found", "")


async def test_a_gateway_without_keys_has_no_metadata(served: ServedGateway) -> None:
    for path in ("", "/mcp"):
        assert (await ask(served, PROTECTED + path))[0] == 404


async def test_metadata_names_the_url_that_its_client_used(kept: ServedGateway) -> None:
    for path in ("", "/mcp"):
        status, _, said = await ask(kept, PROTECTED + path)
        assert status == 200
        assert said == {
            "resource": kept.url + path,
            "resource_name": "Finport",
            "resource_documentation": f"{kept.url}/docs",
            "bearer_methods_supported": ["header"],
        }
        _, _, said = await ask(kept, PROTECTED + path, ANY_HOST)
        assert said["resource"] == f"https://gw.example{path}"


async def test_a_challenge_leads_to_the_metadata(kept: ServedGateway) -> None:
    for path, metadata in (("/mcp", "/mcp"), ("/mcp?tools=all", "/mcp"), ("/v1/tools", "")):
        status, challenge, _ = await ask(kept, path)
        where = f"{kept.url}{PROTECTED}{metadata}"
        assert status == 401
        assert challenge == f'Bearer realm="finport", resource_metadata="{where}"'
        assert (await ask(kept, where.removeprefix(kept.url)))[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "gw.example"},
        {"Host": "gw.example:8443"},
        {"Host": "gw.example", "X-Forwarded-Proto": "ftp"},
        {"Host": "gw.example", "X-Forwarded-Proto": 'https", x="'},
    ],
)
async def test_what_a_proxy_does_not_say_is_not_guessed(
    kept: ServedGateway, headers: dict[str, str]
) -> None:
    assert (await ask(kept, "/mcp", headers))[1] == 'Bearer realm="finport"'
    assert (await ask(kept, f"{PROTECTED}/mcp", headers))[0] == 404
    async with kept.client.get(f"{kept.url}/openapi.json", headers=headers) as got:
        assert (await got.json())["servers"] == [{"url": "/"}]


async def test_any_name_may_be_no_name(catalog: Catalog, tmp_path: Path) -> None:
    given = {"api_keys": ("one-key-0123456789",), "allowed_hosts": ("*",)}
    head = {"Host": 'a"b', "X-Forwarded-Proto": "https"}
    async with open_served_gateway(catalog, tmp_path, **given) as served:
        assert (await ask(served, "/mcp", head))[1] == 'Bearer realm="finport"'


class Nothing(TokenStorage):
    """Where a client keeps what it has of a login: it has nothing."""

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None: ...

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None: ...


def told(error: BaseException) -> str:
    """All that an exception says, with those within it."""
    parts = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    cause = [error.__cause__] if error.__cause__ else []
    return " | ".join([str(error), *map(told, (*parts, *cause))])


async def test_a_client_that_would_log_in_shows_how_a_key_is_sent(kept: ServedGateway) -> None:
    metadata = OAuthClientMetadata(redirect_uris=[AnyUrl("http://localhost:1/callback")])
    url = f"{kept.url}/mcp"
    async with httpx2.AsyncClient(auth=OAuthClientProvider(url, metadata, Nothing())) as http:
        with pytest.raises(Exception) as failed:  # noqa: PT011 - of whatever kind
            async with Client(streamable_http_client(url, http_client=http)) as client:
                await client.list_tools()
    assert HOW in told(failed.value)
