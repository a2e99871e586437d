"""Every tool of an OpenAPI document is called, and a server checks its requests by the document."""

from dataclasses import dataclass, field
from pathlib import Path

from cache import CacheControl
from gateway import CallContext, Gateway, GatewaySettings
from manifests import HttpBinding
from manifests.providers import ProviderSettings
from tests.support.openapi_server import checking_server, load
from tests.support.schema_values import drawn

VARIABLES = {
    "apiKey": ("OPENAPI_TEST_KEY", "planted-key-77"),
    "keyId": ("OPENAPI_TEST_ID", "planted-id-88"),
    "keySecret": ("OPENAPI_TEST_SECRET", "planted-secret-99"),
    "basic": ("OPENAPI_TEST_BASIC", "someone:planted-word-11"),
}


@dataclass
class Tried:
    tools: int = 0
    calls: int = 0
    wrong: list[str] = field(default_factory=list)
    operations: set[str] = field(default_factory=set)


async def tried(document: Path, folder: Path, examples: int, schemes: tuple[str, ...]) -> Tried:
    """Call every tool with its sample, and with so many drawn sets of arguments."""
    done = Tried()
    async with checking_server(load(document), "/base") as (url, checker):
        provider = ProviderSettings(
            openapi=str(document),
            base_url=url,
            credentials={scheme: VARIABLES[scheme][0] for scheme in schemes},
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
