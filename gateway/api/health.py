"""The state of the gateway: for people and load balancers, and as figures for Prometheus."""

from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version

from aiohttp import hdrs, web

from gateway.api import models
from gateway.api.negotiation import takes_openmetrics
from gateway.api.responses import json
from gateway.api.route import CALLER, JSON, Shape, routed
from gateway.call import Gateway
from gateway.sharing.store import StoreError
from gateway.telemetry.exposition import OPENMETRICS, TEXT
from gateway.telemetry.metrics import Metrics

_TEXT: Shape = {"type": "string"}


class HealthRoutes:
    """Request handlers for the state of one gateway. `workers` is the number of processes that
    should serve; `is_draining` says whether this process is about to end.
    """

    def __init__(
        self,
        gateway: Gateway,
        metrics: Metrics,
        workers: int,
        is_draining: Callable[[], bool],
    ) -> None:
        self._gateway = gateway
        self._metrics = metrics
        self._workers = workers
        self._is_draining = is_draining

    @routed("GET", "/healthz", {JSON: models.Health}, is_open=True)
    async def health(self, request: web.Request) -> web.StreamResponse:
        """How the gateway is doing."""
        gateway, health = self._gateway, await self._metrics.health()
        failed = health.pop("failed")
        said: dict[str, object] = {"status": "failed" if failed else "ok"}
        if CALLER in request:
            said |= {
                "version": version("finport"),
                "upstream": gateway.answers.upstream,
                "mode": gateway.settings.mode,
                "snapshot": gateway.snapshot_id,
                "market": gateway.answers.market,
                "world": gateway.settings.world,
                "tools": len(gateway.catalog),
                **await self._together(),
                "workers": {"wanted": self._workers, "alive": health.pop("alive")},
                **health,
            }
        return json(request, said, 503 if failed else 200)

    async def _together(self) -> dict[str, object]:
        """What is known of all gateways that share a Redis."""
        store = self._gateway.answers.store
        if store is None:
            return {}
        counts: dict[str, int] | None = None
        with suppress(StoreError):
            counts = await store.counts_of_all()
        redis = store.trouble or "ok"
        return {"redis": redis, "together": {"gateways": store.gateways, "calls": counts}}

    @routed("GET", "/readyz", {JSON: models.Readiness}, is_open=True)
    async def readiness(self, request: web.Request) -> web.StreamResponse:
        """Whether new calls should be sent here."""
        reason = self._gateway.halted
        if self._is_draining():
            reason = "the gateway is about to end"
        elif self._gateway.answers.failed:
            reason = "nothing more can be recorded"
        said: dict[str, object] = {"status": "ready"}
        if self._gateway.answers.store is not None:  # without Redis the gateway goes on by itself
            said["redis"] = self._gateway.answers.store.readiness
        if reason is None:
            return json(request, said)
        return json(request, {**said, "status": "not ready", "reason": reason}, 503)

    @routed("GET", "/metrics", {format_.content_type: _TEXT for format_ in (TEXT, OPENMETRICS)})
    async def figures(self, request: web.Request) -> web.StreamResponse:
        """Figures for Prometheus."""
        accept = ", ".join(request.headers.getall(hdrs.ACCEPT, ()))
        format_ = OPENMETRICS if takes_openmetrics(accept) else TEXT
        text = await self._metrics.exposition(format_)
        headers = {hdrs.CONTENT_TYPE: format_.content_type, hdrs.CACHE_CONTROL: "no-store"}
        return web.Response(body=text, headers=headers)
