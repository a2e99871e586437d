"""A real browser that reads pages, and what is wrong with one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, Page, async_playwright, expect

from tests.support.installed import AXE, CHROMIUM, skip_without_a_browser
from tests.support.waiting import PATIENCE_S

ARGS = [
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]

expect.set_options(timeout=PATIENCE_S * 1e3)


@asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    """Chromium; without it or axe-core the test is skipped."""
    skip_without_a_browser()
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield chromium
        await chromium.close()


async def new_tab(chromium: Browser, width: int, said: list[str]) -> Page:
    """A tab so wide, whose console and errors go to `said`."""
    tab = await chromium.new_page(viewport={"width": width, "height": 800})
    tab.set_default_timeout(PATIENCE_S * 1e3)
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    return tab


async def check(tab: Page, *widths: int) -> None:
    """At each width a page is as wide as the window and has nothing that axe finds, in both colour
    schemes.
    """
    await tab.evaluate(AXE.read_text(encoding="utf-8"))
    for width in widths:
        await tab.set_viewport_size({"width": width, "height": 800})
        assert await tab.evaluate("document.documentElement.scrollWidth") == width, tab.url
        for scheme, rules in (("light", ""), ("dark", "runOnly: ['color-contrast']")):
            await tab.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            wrong = await tab.evaluate(
                f"axe.run({{ resultTypes: ['violations'], {rules} }}).then((found) =>"
                " found.violations.map(({ id, nodes }) => [id, nodes.map((node) => node.html)]))"
            )
            assert wrong == [], (tab.url, width, scheme)
