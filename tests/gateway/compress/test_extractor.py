"""Answers shortened by a model at a local OpenAI-compatible endpoint; by rules where it fails."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from finport import Budget, CallContext, Gateway, GatewaySettings
from gateway.search import endpoint_limits
from gateway.settings_file import SettingsError
from manifests import Catalog
from tests.support.gateways import LocalGateway, open_local_gateway
from tests.support.upstreams import upstream

pytestmark = pytest.mark.anyio

TOOL = "stock_zh_a_hist"
HIST = {"symbol": "600519"}
KEY = "planted-extractor-key-77"


class Model:
    """Plays the endpoint: sends `content`, or `status`, and keeps what it was sent."""

    def __init__(self) -> None:
        self.content = "nothing yet"
        self.status = 200
        self.asked: list[dict[str, Any]] = []
        self.keys: set[str | None] = set()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.keys.add(request.headers.get("Authorization"))
        self.asked.append(await request.json())
        if self.status != 200:
            return web.Response(status=self.status)
        await asyncio.sleep(0.02)
        return web.json_response({"choices": [{"message": {"content": self.content}}]})


def settings(url: str) -> dict[str, Any]:
    return {"extractor_url": url, "extractor_model": "small", "extractor_key": KEY}


async def ask(local: LocalGateway, question: str, max_tokens: int = 200) -> tuple[str, str]:
    context = CallContext(max_tokens=max_tokens, question=question)
    result = await local.gateway.call(TOOL, HIST, context)
    assert result.ok
    return result.value, json.loads(result.to_json())["compression"]["by"]


async def test_a_model_copies_what_the_question_needs(
    catalog: Catalog, tmp_path: Path, tables: Path
) -> None:
    model = Model()
    async with (
        upstream(model.answer) as url,
        open_local_gateway(catalog, tmp_path, kept=tables, **settings(url)) as local,
    ):
        whole = (await local.gateway.call(TOOL, HIST, CallContext(max_rows=1))).value[0]
        model.content = f"{whole['日期']}: 收盘 {whole['收盘']}"
        texts = await asyncio.gather(*(ask(local, "最新收盘价") for _ in range(20)))
        assert {*texts} == {(model.content, "model:small")}
        assert await ask(local, "最新收盘价") == texts[0]
        assert len(model.asked) == 1  # callers at once share it, and it is kept
        assert model.keys == {f"Bearer {KEY}"}
        assert whole["日期"] in model.asked[0]["messages"][1]["content"]
        context = CallContext(max_tokens=200)
        assert (await local.gateway.call(TOOL, HIST, context)).ok
        assert len(model.asked) == 1  # without a question there is nothing to extract


FAILURES = {
    "invented": ("the close was 987654.321", 200),
    "nothing": ("NOTHING", 200),
    "empty": ("", 200),
    "too long": ("word " * 4_000, 200),
    "too large": ("x" * 2**21, 200),
    "500": ("", 500),
    "401": ("", 401),
}


async def test_what_fails_or_was_invented_is_replaced_by_rules(
    catalog: Catalog,
    tmp_path: Path,
    tables: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(endpoint_limits, "PAUSE_S", 0.0)  # each failure is asked for
    model = Model()
    async with (
        upstream(model.answer) as url,
        open_local_gateway(catalog, tmp_path, kept=tables, **settings(url)) as local,
    ):
        for name, (content, status) in FAILURES.items():
            model.content, model.status = content, status
            text, by = await ask(local, "最新收盘价")
            assert by == "rules", name
            assert Budget(200).fits(text)
            assert "收盘" in text
    assert len(model.asked) == len(FAILURES)
    assert KEY not in caplog.text


async def test_an_extractor_has_a_url_and_a_model(tmp_path: Path) -> None:
    half = GatewaySettings(cache_dir=tmp_path, extractor_url="http://127.0.0.1:9")
    with pytest.raises(SettingsError, match="extractor_model"):
        async with Gateway.open(half):
            pass
