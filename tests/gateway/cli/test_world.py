"""`finport world`: pages about the simulated market."""

import json
import re
from pathlib import Path

import pytest
from playwright.async_api import async_playwright

from adapters.simulator import FUNCTIONS
from tests.support.checkout import ROOT
from tests.support.commands import finport
from tests.support.installed import AXE, CHROMIUM
from tests.support.waiting import PATIENCE_S

ARGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def test_the_page_names_the_functions_that_read_the_market() -> None:
    page = (ROOT / "docs" / "simulated.md").read_text()
    assert set(re.findall(r"`(\w+)`", page.partition("## Invented")[0])) == FUNCTIONS, (
        "finport world tools --markdown > docs/simulated.md"
    )
    rows = json.loads(finport("world", "tools", "--json").stdout)
    assert {name for row in rows for name in row["real"]} == FUNCTIONS
    assert all(bool(row["why"]) == bool(row["invented"]) for row in rows)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the default market."""
    out = tmp_path_factory.mktemp("world") / "world.html"
    assert finport("world", "page", str(out)).returncode == 0
    return out


def test_a_seed_and_a_day_make_one_page(written: Path, tmp_path: Path) -> None:
    first, pages = written.read_text(), []
    for number, options in enumerate([(), ("--seed", "1"), ("--now", "2025-03-03")]):
        out = tmp_path / f"{number}.html"
        assert finport("world", "page", str(out), *options).returncode == 0
        pages.append(out.read_text())
    assert pages[0] == first
    assert len({*pages}) == 3
    assert "Seed 1, to 2026-06-30" in pages[1]
    assert "2025-03-03" in pages[2]
    assert "2026" not in re.sub("<style>.*</style>", "", pages[2], flags=re.DOTALL)
    again = finport("world", "page", str(written), "--seed", "1")
    assert again.returncode == 1
    assert "it exists already" in again.stderr
    assert written.read_text() == first


@pytest.mark.anyio
async def test_the_page_in_a_browser(written: Path) -> None:
    """As wide as a phone and as a desk, in both colour schemes, with nothing asked for."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    said = list[str]()
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        tab = await chromium.new_page()
        tab.set_default_timeout(PATIENCE_S * 1e3)
        tab.on("pageerror", lambda problem: said.append(str(problem)))
        tab.on("console", lambda message: said.append(message.text))
        tab.on("request", lambda request: said.append(request.url))
        await tab.goto(written.as_uri())
        for width in (1240, 360):
            await tab.set_viewport_size({"width": width, "height": 740})
            assert await tab.evaluate("document.documentElement.scrollWidth") == width
            heights = await tab.evaluate(
                "[...document.querySelectorAll('svg text')].map("
                "(text) => text.getBoundingClientRect().height)"
            )
            assert len(heights) > 80
            assert min(heights) > 10
        titles = await tab.locator("figcaption b").all_inner_texts()
        assert len({*titles}) == len(titles) == 11
        assert {"Treasury yields", "Daily returns", "Autocorrelation"} <= {*titles}
        grounds = set()
        for scheme in ("light", "dark"):
            await tab.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            grounds.add(await tab.evaluate("getComputedStyle(document.body).backgroundColor"))
            if AXE.is_file():
                await tab.evaluate(AXE.read_text(encoding="utf-8"))
                wrong = await tab.evaluate(
                    "axe.run({ resultTypes: ['violations'] }).then((found) =>"
                    " found.violations.map(({ id, nodes }) => [id, nodes.map((n) => n.html)]))"
                )
                assert wrong == [], scheme
        assert len(grounds) == 2
        await chromium.close()
    assert said == [written.as_uri()]
