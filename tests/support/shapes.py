"""A gateway whose upstream answers what a test says, and which compares every answer."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from pydantic import SecretStr

from cache import CacheControl
from gateway import CallContext, Gateway, GatewaySettings
from gateway.shapes.watch import ShapeWatch
from manifests import Catalog
from tests.support.gateways import PLANTED_KEY
from tests.support.upstreams import upstream
from tests.support.waiting import until

ANEW = CallContext(cache=CacheControl(no_cache=True))


class Changing:
    """An upstream with one answer at a time."""

    def __init__(self) -> None:
        self.body = b"{}"

    async def handle(self, _: web.Request) -> web.Response:
        return web.Response(body=self.body, content_type="application/json")


class Compared:
    """A gateway and its upstream. `url` is the upstream's base URL."""

    def __init__(self, gateway: Gateway, answering: Changing, url: str) -> None:
        self.gateway = gateway
        self.answering = answering
        self.url = url

    @property
    def watch(self) -> ShapeWatch:
        assert self.gateway.answers.shapes is not None
        return self.gateway.answers.shapes

    @property
    def kinds(self) -> dict[str, int]:
        """How many changes of each kind were counted."""
        found: dict[str, int] = {}
        for (_, kind), count in self.watch.changes.items():
            found[kind] = found.get(kind, 0) + count
        return found

    async def answer(self, said: Any, tool: str = "get_coin", **arguments: Any) -> None:
        """One call that upstream answers so, until the answer has been compared or left out."""
        self.answering.body = said if isinstance(said, bytes) else json.dumps(said).encode()
        before = self.watch.answers.total()
        arguments = arguments or {"uuid": "Qwsogvtv82FCd"}
        assert (await self.gateway.call(tool, arguments, ANEW)).ok
        await until(lambda: self.watch.answers.total() > before)

    async def changes(self, tool: str = "get_coin") -> list[str]:
        """The changes in the answer that changed last, in words."""
        changes = await self.watch.last_changes(tool)
        return [f"{c.kind} {c.path}: {'|'.join(c.before)} > {'|'.join(c.after)}" for c in changes]


@asynccontextmanager
async def open_compared(
    catalog: Catalog, folder: Path, url: str | None = None, **settings: Any
) -> AsyncIterator[Compared]:
    """With the upstream at `url`, answers are what that one says."""
    answering = Changing()
    async with upstream(answering.handle) as own:
        chosen = GatewaySettings(
            **{
                "cache_dir": folder / "cache",
                "rapidapi_keys": (SecretStr(PLANTED_KEY),),
                "rapidapi_base_url": url or own,
                "shape_share": 1.0,
                **settings,
            }
        )
        async with Gateway.open(chosen, catalog=catalog) as gateway:
            yield Compared(gateway, answering, url or own)
