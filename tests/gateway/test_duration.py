"""Spans of time as text, in Python and in the browser."""

import shutil
from importlib.resources import files

import pytest
from playwright.async_api import async_playwright

from manifests.common.duration import duration

TEXTS = {
    0: "0 s",
    0.000_000_4: "0.4 µs",
    0.000_25: "250 µs",
    0.000_999_4: "999 µs",
    0.000_999_6: "1 ms",
    0.012_25: "12.3 ms",
    0.25: "250 ms",
    0.9996: "1 s",
    1.005: "1 s",
    2.5: "2.5 s",
    12.34: "12.3 s",
    59.94: "59.9 s",
    59.96: "1 min",
    60: "1 min",
    119.4: "1 min 59 s",
    119.5: "2 min",
    200: "3 min 20 s",
    300: "5 min",
    3_599.6: "1 h",
    3_725: "1 h 2 min",
    86_399: "23 h 59 min",
    86_400: "1 d",
    90_061: "1 d 1 h",
    1_209_600: "14 d",
    10_000_000: "115 d 17 h",
}


def test_spans_as_text() -> None:
    assert {seconds: duration(seconds) for seconds in TEXTS} == TEXTS


@pytest.mark.anyio
async def test_the_page_writes_them_alike() -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    code = files("gateway.api").joinpath("static/duration.js").read_text(encoding="utf-8")
    spans = [*TEXTS, *(1.37**n / 1e5 for n in range(-12, 90))]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = await browser.new_page()
        module = code.replace("export ", "")
        texts = await tab.evaluate(f"(spans) => {{ {module}; return spans.map(duration); }}", spans)
        await browser.close()
    assert texts == [duration(span) for span in spans]
