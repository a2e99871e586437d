"""Every tool of an OpenAPI document is called, and a server checks its requests by the document."""

from dataclasses import dataclass, field
from pathlib import Path

from cache import CacheControl
from gateway import CallContext, Gateway, GatewaySettings
from manifests import HttpBinding
from manifests.openapi.document import read_document
from manifests.openapi.importing import imported
from manifests.providers import ProviderSettings
from tests.support.openapi_server import checking_server, load
from tests.support.schema_values import drawn

VARIABLE = "OPENAPI_TEST_SECRET"
"""The environment variable whose value stands for any secret."""


@dataclass
class Tried:
    tools: int = 0
    calls: int = 0
    wrong: list[str] = field(default_factory=list)
    operations: set[str] = field(default_factory=set)


def schemes_of(document: Path) -> set[str]:
    """The security schemes that tools of a document need, except those that fetch tokens."""
    found = imported(read_document(document.read_bytes()), base_url="http://localhost")
    bindings = (m.binding for m in found.manifests)
    alternatives = (one for b in bindings if isinstance(b, HttpBinding) for one in b.security)
    return {c.scheme for one in alternatives for c in one if c.kind != "oauth2"}


async def tried(document: Path, folder: Path, examples: int) -> Tried:
    """Call every tool with its sample, and with so many drawn sets of arguments."""
    done = Tried()
    async with checking_server(load(document), "/base") as (url, checker):
        provider = ProviderSettings(
            openapi=str(document),
            base_url=url,
            credentials=dict.fromkeys(schemes_of(document), VARIABLE),
        )
        settings = GatewaySettings(
            catalog="none",
            providers={"tried": provider},
            cache_dir=folder,
            allow_transactional=True,
            retries=0,
            breaker_attempts=10_000,
        )
        async with Gateway.open(settings) as gateway:
            done.tools = len(gateway.catalog)
            for manifest in gateway.catalog:
                assert isinstance(manifest.binding, HttpBinding)
                operation = f"{manifest.binding.method} {manifest.binding.path}"
                sets = [(True, manifest.sample())]
                sets += [(False, given) for given in drawn(manifest, examples)]
                for strictly, given in sets:
                    checker.strictly = strictly
                    before = len(checker.seen)
                    result = await gateway.call(
                        manifest.name, given, CallContext(cache=CacheControl(no_cache=True))
                    )
                    done.calls += 1
                    if not result.ok:
                        done.wrong.append(f"{operation} {given}: {result.message}"[:600])
                    elif checker.seen[before:] != [operation]:
                        done.wrong.append(f"{operation} came as {checker.seen[before:]}")
                    done.operations.add(operation)
    return done
