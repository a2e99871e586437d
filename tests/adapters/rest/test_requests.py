"""Requests are what the document says: a server checks every one of them by the document."""

from pathlib import Path

import pytest

from tests.support.openapi_runs import VARIABLE, tried

pytestmark = pytest.mark.anyio

DOCUMENTS = Path(__file__).parents[2] / "manifests" / "openapi" / "documents"


@pytest.mark.parametrize(
    ("name", "tools"),
    [("market_data.yaml", 5), ("central_bank.yaml", 6), ("broker.json", 10), ("petstore.yaml", 5)],
)
async def test_every_tool_sends_requests_that_its_document_allows(
    name: str,
    tools: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, "someone:planted-secret-77")
    done = await tried(DOCUMENTS / name, tmp_path, 25)
    assert done.wrong == []
    assert (done.tools, len(done.operations)) == (tools, tools)
    assert done.calls > 10 * tools
