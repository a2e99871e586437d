"""The page at `/`: its HTML over HTTP, and its script in a real browser where one is at hand."""

import re
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import date, timedelta
from html.parser import HTMLParser
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from playwright.async_api import Locator, Route, async_playwright, expect
from playwright.async_api import Page as Tab
from yarl import URL

from gateway import Gateway, GatewaySettings
from gateway.api.page import HEADERS, WebPage
from gateway.search.finder import ToolFinder
from gateway.server.http import serve
from manifests import Catalog, Column, Manifest, Parameter, RapidApiBinding
from tests.support.installed import AXE, CHROMIUM, skip_without_a_browser
from tests.support.waiting import PATIENCE_S

expect.set_options(timeout=PATIENCE_S * 1e3)

pytestmark = pytest.mark.anyio

ARGS = [
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
EVIL = '<script>document.title="run"</script><img src=x onerror=alert(1)>"\'{{7*7}}'
SERIES = "stock_zh_a_hist"
DOCUMENT = "get_coin"


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    """Over the whole catalogue and one tool whose author is up to something."""
    evil = Manifest(
        name="evil",
        description=EVIL,
        timeliness="static",
        intent_type="transactional",
        regulatory_domains=("esg",),
        parameters=(
            Parameter(name="text", type="string", description=EVIL, required=True, example=EVIL),
            Parameter(name="many", type="number", description="A number", example=2.5),
            Parameter(name="count", type="integer", description="A count", default=3),
            Parameter(name="raw", type="boolean", description="Raw", default=False),
            Parameter(name="deep", type="boolean", description="Deep"),
            Parameter(name="kind", type="string", description="", enum=("", "a"), default="a"),
            Parameter(name="key", type="string", description="", filled_by="credential"),
            Parameter(name="old", type="string", description="", withdrawn=EVIL),
        ),
        columns=(Column(name=EVIL, description=EVIL),),
        binding=RapidApiBinding(
            host="evil.example",
            path="/",
            query={n: n for n in ("text", "many", "count", "raw", "deep", "kind", "key", "old")},
        ),
        generated=EVIL,
    )
    settings = GatewaySettings(
        upstream="simulated",
        akshare_workers=1,
        cache_dir=tmp_path_factory.mktemp("page") / "cache",
    )
    async with Gateway.open(settings, catalog=Catalog([*Catalog.load(), evil])) as opened:
        yield opened


@pytest.fixture(scope="module")
async def page_url(gateway: Gateway) -> AsyncIterator[str]:
    async with serve(gateway) as url:
        yield url


@pytest.fixture
async def client(page_url: str) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(page_url) as session:
        yield session


class Markup(HTMLParser):
    """What a policy without 'unsafe-inline' would stop."""

    def __init__(self) -> None:
        super().__init__()
        self.inline: list[str] = []
        self.ids: list[str] = []
        self._script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids += [given["id"] or ""] if "id" in given else []
        self._script = tag == "script"
        if tag == "style" or (tag == "script" and "src" not in given):
            self.inline.append(tag)
        self.inline += [name for name in given if name == "style" or name.startswith("on")]
        self.inline += [v for n, v in attrs if n in ("href", "src") and v and "script:" in v]

    def handle_endtag(self, _tag: str) -> None:
        self._script = False

    def handle_data(self, data: str) -> None:
        if self._script and data.strip():
            self.inline.append(data)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 200),
        ("/?q=treasury+yields&source=akshare&domain=&timeliness=&intent=", 200),
        ("/?q=" + "%3Cscript%3E" * 400, 200),
        ("/?domain=bond&page=99", 200),
        ("/?domain=stocks", 400),
        ("/?page=0", 400),
        ("/tools/evil", 200),
        ("/tools/get_qhkc_index", 200),
        ("/tools/%3Cscript%3Ealert(1)%3C%2Fscript%3E", 404),
        ("/docs", 200),
    ],
)
async def test_every_page_carries_the_policy_and_nothing_inline(
    client: aiohttp.ClientSession, path: str, status: int
) -> None:
    async with client.get(path) as response:
        assert response.status == status
        assert {name: response.headers[name] for name in HEADERS} == HEADERS
        text = await response.text()
    markup = Markup()
    markup.feed(text)
    assert markup.inline == []
    assert len(set(markup.ids)) == len(markup.ids)
    assert "<script>" not in text
    assert "<h1" in text


async def test_each_tool_has_a_page(client: aiohttp.ClientSession, gateway: Gateway) -> None:
    for manifest in gateway.catalog:
        async with client.get(f"/tools/{manifest.name}") as response:
            assert response.status == 200, manifest.name
            text = await response.text()
        assert ('<form id="call"' in text) == (manifest.unavailable is None)
        assert ("Unavailable." in text) == (manifest.unavailable is not None)
        assert ("May change something" in text) == (manifest.intent_type == "transactional")


async def test_what_a_manifest_says_is_text(client: aiohttp.ClientSession) -> None:
    async with client.get("/tools/evil") as response:
        text = await response.text()
    assert "<img src=x" not in text
    assert text.count("&lt;script&gt;document.title") >= 5
    assert "{{7*7}}" in text
    for part in ('type="number"', 'type="checkbox"', "not given", "(empty)", 'step="any"'):
        assert part in text


async def test_search_and_filters_work_without_a_script(client: aiohttp.ClientSession) -> None:
    async def listed(path: str) -> list[str]:
        async with client.get(path) as response:
            text = await response.text()
        return [part.split('"')[0] for part in text.split('<a href="/tools/')[1:]]

    assert (await listed("/?q=treasury+yields+of+China+and+the+US"))[0] == "bond_zh_us_rate"
    assert await listed("/?domain=esg&source=akshare") == ["index_eri"]
    first, second = await listed("/?domain=bond"), await listed("/?domain=bond&page=2")
    assert len(first) == (41 if len(first) < 50 else 50)
    everything = [name for n in range(1, 17) for name in await listed(f"/?page={n}")]
    assert len(everything) == len(set(everything)) == 761
    assert not set(first) & set(second)
    async with client.get("/?q=will+it+rain+in+Berlin") as response:
        assert "No tool fits; these are the nearest." in await response.text()


async def test_an_unknown_tool_names_its_nearest(client: aiohttp.ClientSession) -> None:
    async with client.get("/tools/get_coinz") as response:
        assert response.status == 404
        assert 'href="/tools/get_coin"' in await response.text()


async def test_files_stand_under_a_hash_of_them_all(client: aiohttp.ClientSession) -> None:
    """So a new version never runs with a cached module of an old one."""
    todo = []
    for path in ("/", f"/tools/{SERIES}", "/docs"):
        async with client.get(path) as response:
            todo += re.findall(r'"(/static/[^"]+)"', await response.text())
    folder = todo[0].rpartition("/")[0]
    seen: dict[str, str] = {}
    while todo:
        path = todo.pop()
        assert path.startswith(folder)
        async with client.get(path) as response:
            assert response.status == 200
            assert "immutable" in response.headers["Cache-Control"]
            assert {name: response.headers[name] for name in HEADERS} == HEADERS
            seen[path.rpartition("/")[2]] = response.content_type
            imported = re.findall(r'from "\./(\w+\.js)"', await response.text())
        todo += [f"{folder}/{name}" for name in imported if name not in seen]
    scripts = {name for name, kind in seen.items() if kind == "text/javascript"}
    assert scripts == {"answer.js", "call.js", "duration.js", "live.js", "page.js", "plot.js"}
    assert seen.keys() - scripts == {"page.css", "palette.css", "favicon.svg"}


@pytest.mark.parametrize(
    "file",
    [
        *("0/page.css", "H/base.html", "H/page.py", "H/%2e%2e%2fpage.py", "H/..%2f..%2fpage.py"),
        *("H/..%5cpage.py", "H%2f..%2fpage.py", "%2fetc%2fpasswd", "H/%00", "H/page.css%00.svg"),
    ],
)
async def test_nothing_but_the_files_of_the_page_is_served(
    client: aiohttp.ClientSession, page_url: str, file: str
) -> None:
    async with client.get("/") as response:
        (version,) = set(re.findall("/static/([0-9a-f]+)/", await response.text()))
    url = URL(f"{page_url}/static/{file.replace('H', version)}", encoded=True)
    async with client.get(url) as response:
        assert response.status == 404
        assert b"import" not in await response.read()


async def test_rendering_leaves_the_event_loop_free(gateway: Gateway) -> None:
    page = WebPage(gateway, ToolFinder(gateway.catalog), dict)

    async def best_ms(handler: Callable[[web.Request], Any], path: str, **match: str) -> float:
        times = []
        for _ in range(20):
            request = make_mocked_request("GET", path, match_info=match)
            before = time.thread_time()
            await handler(request)
            times.append((time.thread_time() - before) * 1e3)
        return min(times)

    assert await best_ms(page.search, "/") < 5
    assert await best_ms(page.tool, f"/tools/{SERIES}", name=SERIES) < 5


async def test_the_reference_says_what_the_description_says(client: aiohttp.ClientSession) -> None:
    async with client.get("/docs") as response:
        text = " ".join(re.sub("<[^>]+>", " ", await response.text()).split())
    for said in (
        "POST /v1/tools/{name} Call a tool.",
        "limit in query, integer · at least 1 · at most 1000 · default 100",
        "application/json ToolsPage · no other names A page of the catalogue.",
        "total integer required tools array of ToolSummary required name string required",
        "unavailable string or null required Why it can&#39;t be called now.",
        "ok false required error ErrorBody required · no other names Why there is no answer",
    ):
        assert said in text, said


# In a browser.


@dataclass
class Browser:
    """One tab for all tests, and what its console has said."""

    tab: Tab
    said: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
async def browser(page_url: str) -> AsyncIterator[Browser]:
    skip_without_a_browser()
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        context = await chromium.new_context(
            base_url=page_url, color_scheme="light", viewport={"width": 1280, "height": 900}
        )
        await context.grant_permissions(["clipboard-read", "clipboard-write"])
        context.set_default_timeout(PATIENCE_S * 1e3)
        opened = Browser(await context.new_page())
        opened.tab.on("pageerror", lambda error: opened.said.append(str(error)))
        opened.tab.on("console", lambda message: opened.said.append(message.text))
        yield opened
        await chromium.close()


@pytest.fixture
async def tab(browser: Browser) -> AsyncIterator[Tab]:
    """The tab, in which nothing may go wrong but what is asked to: refused calls say so there."""
    browser.said.clear()
    yield browser.tab
    await browser.tab.unroute_all()
    await browser.tab.goto("about:blank")
    assert [text for text in browser.said if not text.startswith("Failed to load resource:")] == []


ANSWERED = """new Promise((done) => {
  const look = () => (send.ariaDisabled ? requestAnimationFrame(look) : done());
  look();
})"""


async def call(tab: Tab) -> Locator:
    """Press the button; gives the answer, once it is there."""
    await tab.locator("#send").click()
    await tab.evaluate(ANSWERED)
    answer = tab.locator("#result")
    await expect(answer).to_be_visible()
    return answer


async def answered_by(tab: Tab, tool: str, envelope: dict[str, Any]) -> None:
    """Has calls of `tool` answered by `envelope`."""
    provenance = {
        "source": "live",
        "upstream": "live",
        "age_s": 0.0,
        "snapshot": None,
        "digest": "00",
        "attempts": 1,
        "elapsed_ms": 1.5,
        "call_id": "1-1",
    }
    whole = {"ok": True, "tool": tool, "columns": None, "rows": None, "handle": None}

    async def answer(route: Route) -> None:
        await route.fulfill(json={**whole, "provenance": provenance, **envelope})

    await tab.route(f"**/v1/tools/{tool}?*", answer)


def table(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"data": rows, "columns": list(rows[0]), "rows": len(rows)}


async def column(answer: Locator, number: int) -> list[str]:
    return await answer.locator(f"tbody td:nth-child({number})").all_text_contents()


async def test_from_a_question_to_a_plot(tab: Tab) -> None:
    await tab.goto("/")
    await tab.get_by_role("searchbox").fill("A-share daily price history")
    await tab.get_by_label("Source").select_option("akshare")
    await tab.get_by_role("button", name="Search").click()
    await tab.get_by_role("link", name=SERIES, exact=True).click()
    await expect(tab).to_have_title(f"{SERIES} · Finport")

    await tab.get_by_label("symbol", exact=True).fill("600519")
    await tab.get_by_label("adjust", exact=True).select_option("qfq")
    answer = await call(tab)
    await expect(answer.locator("dd.amber").first).to_have_text("simulated")
    await expect(answer).to_contain_text("the last 100 of 250 rows")
    await expect(answer).to_contain_text("Cut to rows 151-250 of 250, from 2026-01-27")
    await expect(answer.locator("tbody tr")).to_have_count(100)

    assert tab.url.endswith("#symbol=600519&adjust=qfq")
    curl = await tab.locator("#curl").inner_text()
    assert f"/v1/tools/{SERIES}?max_rows=100' " in curl
    assert curl.endswith("""-d '{"symbol":"600519","adjust":"qfq"}'""")
    await tab.get_by_role("button", name="Copy").click()
    await expect(tab.get_by_role("button", name="Copied")).to_be_visible()
    assert await tab.evaluate("navigator.clipboard.readText()") == curl

    point, readout = answer.get_by_role("slider", name="Date"), answer.locator("#readout")
    await point.press("Home")
    first = await readout.inner_text()
    assert first.startswith((await column(answer, 1))[0])
    await expect(point).to_have_attribute("aria-valuetext", first)
    await answer.locator("#canvas").hover(position={"x": 600, "y": 100})
    await expect(readout).not_to_have_text(first)
    await answer.get_by_label("Plot").select_option("成交量")
    await expect(answer.locator("figcaption")).to_contain_text("成交量 at 100 dates, from ")

    await answer.get_by_role("button", name="Show 150 more").click()
    await expect(answer.locator("tbody tr")).to_have_count(250)
    await expect(answer.locator("figcaption")).to_contain_text("成交量 at 250 dates")
    await expect(answer.locator("#count")).to_have_text("250 rows")

    dates, closing = await column(answer, 1), await column(answer, 4)
    head = answer.get_by_role("button", name="收盘")
    for direction, expected in (
        ("ascending", sorted(closing, key=float)),
        ("descending", sorted(closing, key=float, reverse=True)),
    ):
        await head.click()
        await expect(answer.locator("th[aria-sort]")).to_have_attribute("aria-sort", direction)
        assert await column(answer, 4) == expected
    await head.click()
    assert await column(answer, 1) == dates == sorted(dates)


async def test_all_of_it_by_keyboard(tab: Tab) -> None:
    async def tab_to(name: str) -> None:
        for _ in range(40):
            await tab.keyboard.press("Tab")
            text, id_, ring = await tab.evaluate(
                "(({ innerText, id }) => [innerText, id,"
                " getComputedStyle(document.activeElement).outlineStyle])(document.activeElement)"
            )
            assert ring != "none" or id_ == "point"  # whose plot has the ring
            if name in (text, id_):
                return
        pytest.fail(f"the keyboard does not reach {name}")

    await tab.goto("/")
    await tab.keyboard.press("Tab")
    await expect(tab.get_by_role("link", name="Skip to content")).to_be_focused()
    await tab.keyboard.press("Enter")
    await tab_to("q")
    await tab.keyboard.type("price history of one A-share from Eastmoney, optionally adjusted")
    await tab.keyboard.press("Enter")
    await expect(tab.get_by_role("heading", level=2).first).to_contain_text("for “price history")
    await tab_to(SERIES)
    await tab.keyboard.press("Enter")
    await expect(tab.get_by_role("heading", level=1)).to_have_text(SERIES)
    await tab_to("argument-1")
    await tab.keyboard.type("000002")
    await tab.keyboard.press("Enter")
    await expect(tab.locator("#announcer")).to_have_text("Answered: the last 100 of 250 rows.")
    await tab_to("point")
    await expect(tab.locator("#canvas")).to_have_css("outline-style", "solid")
    await tab.keyboard.press("ArrowLeft")
    await expect(tab.get_by_role("slider")).to_have_value("98")
    await tab_to("开盘")
    await tab.keyboard.press("Space")
    await expect(tab.locator("th[aria-sort=ascending]")).to_contain_text("开盘")


async def test_errors_stand_beside_what_they_are_about(tab: Tab) -> None:
    await tab.goto(f"/tools/{SERIES}#symbol=5&start_date=never&end_date=20240131")
    symbol = tab.get_by_label("symbol", exact=True)
    await expect(symbol).to_have_value("5")
    result = await call(tab)
    await expect(result.get_by_role("heading")).to_have_text("No answer")
    await expect(result.get_by_role("alert")).to_contain_text("invalid_arguments")
    await expect(result).to_contain_text("At fault: the request. Trying again as it is")
    await expect(symbol).to_be_focused()
    await expect(symbol).to_have_attribute("aria-invalid", "true")
    await expect(tab.locator("#argument-1-problem")).to_contain_text("no code of six digits")
    await expect(tab.locator("#argument-3-problem")).to_contain_text("is no date")
    await expect(tab.locator("#argument-4-problem")).to_be_empty()
    await symbol.fill("600000")
    await tab.get_by_label("start_date", exact=True).fill("20240101")
    await call(tab)
    await expect(result.get_by_role("heading")).to_have_text("Answer")
    await expect(tab.locator("[aria-invalid=true]")).to_have_count(0)

    error = {
        "code": "circuit_open",
        "message": EVIL,
        "fault": "tool",
        "retryable": True,
        "retry_after_s": 9.2,
        "details": {},
    }
    await answered_by(tab, SERIES, {"ok": False, "error": error})
    await call(tab)
    await expect(result).to_contain_text("At fault: the tool or its upstream. Try again in 10 s.")
    await expect(result).to_contain_text(EVIL)
    await tab.route("**/v1/tools/**", lambda route: route.abort())
    await call(tab)
    await expect(result).to_contain_text("The gateway did not answer.")


async def test_what_an_upstream_says_is_text(tab: Tab) -> None:
    await tab.goto("/tools/evil")
    await answered_by(tab, "evil", table([{EVIL: EVIL, "日期": EVIL, "n": n} for n in range(3)]))
    answer = await call(tab)
    assert await column(answer, 1) == [EVIL] * 3
    await expect(answer.get_by_role("button", name=EVIL)).to_be_visible()
    await answered_by(tab, "evil", {"data": {EVIL: [EVIL, {EVIL: None}], "__proto__": 1}})
    answer = await call(tab)
    await expect(answer.locator("#tree")).to_contain_text(f"0: {EVIL}")
    await expect(answer.locator("#tree")).to_contain_text("__proto__: 1")
    await expect(answer.locator("#rows")).to_be_hidden()
    assert await tab.locator("main script, main img").count() == 0
    await expect(tab).to_have_title("evil · Finport")


async def test_arguments_are_typed_and_what_is_not_said_is_left_out(tab: Tab) -> None:
    async def sent() -> Any:
        async with tab.expect_request("**/v1/tools/evil?*") as request:
            await call(tab)
        return (await request.value).post_data_json

    await answered_by(tab, "evil", {"data": {}})
    await tab.goto("/tools/evil")
    assert await sent() == {"text": EVIL}
    await tab.get_by_label("many", exact=True).fill("1.50")
    await tab.get_by_label("count", exact=True).fill("7")
    await tab.get_by_label("raw", exact=True).check()
    await tab.get_by_label("deep", exact=True).select_option("false")
    await tab.get_by_label("kind", exact=True).select_option("(empty)")
    given = {"text": EVIL, "many": 1.5, "count": 7, "raw": True, "deep": False, "kind": ""}
    assert await sent() == given
    await tab.reload()
    assert await sent() == given
    await tab.get_by_label("text", exact=True).fill("")
    await tab.get_by_role("button", name="Call", exact=True).click()
    await expect(tab.get_by_label("text", exact=True)).to_be_focused()  # the browser refuses


async def test_numbers_and_dates_are_told_from_text(tab: Tab) -> None:
    rows = [
        {"月份": month, "share": share, "code": code}
        for month, share, code in (
            ("2024年03月份", 9.5, "000010"),
            ("2024年02月份", -1.25, "000002"),
            ("2024年04月份", None, "000001"),
        )
    ]
    await answered_by(tab, "evil", table(rows))
    await tab.goto("/tools/evil")
    answer = await call(tab)
    assert await column(answer, 2) == ["9.50", "-1.25", ""]
    for direction in (["-1.25", "9.50", ""], ["9.50", "-1.25", ""]):
        await answer.get_by_role("button", name="share").click()
        assert await column(answer, 2) == direction
    await expect(answer.locator("td:nth-child(2)").first).to_have_css("text-align", "end")
    await expect(answer.locator("td:nth-child(3)").first).to_have_css("text-align", "start")
    await expect(answer.locator("figcaption")).to_contain_text(
        "share at 2 dates, from -1.25 on 2024年02月份 to 9.5 on 2024年03月份;"
    )
    same_day = [{"date": "2024-01-02", "close": n} for n in range(4)]
    await answered_by(tab, "evil", table(same_day))
    await expect((await call(tab)).locator("#plot")).to_be_hidden()


async def test_numbers_that_are_too_far_apart_or_too_near_are_shown_without_a_plot(
    tab: Tab,
) -> None:
    most, least = sys.float_info.max, 5e-324
    cases: list[tuple[list[float | None], bool]] = [
        ([1e308, -1e308, 5], False),
        ([1.7e308, 0, -1e307], False),  # its lowest tick would be -2e308
        ([most, most, most], False),
        ([least, 0, 2 * least], False),
        ([1e300, 1.0000000000000002e300, 1e300], False),
        ([1e300, 2e300, 1e-300], True),
        ([1e-300, 2e-300, 5e-300], True),
        ([least, least, least], True),
        ([0, 0, 0], True),
        ([None, None, 7], True),
        ([n * 37 % 501 / 8 for n in range(10_000)], True),
    ]
    await tab.goto("/tools/evil")
    for values, is_drawn in cases:
        days = [str(date(1990, 1, 1) + timedelta(n)) for n in range(len(values))]
        rows = [{"date": day, "x": x} for day, x in zip(days, values, strict=True)]
        await answered_by(tab, "evil", table(rows))
        answer = await call(tab)
        await expect(answer.locator("#rows")).to_be_visible()
        await expect(answer.locator("#canvas svg")).to_have_count(int(is_drawn))
        shown = [float(text) if text else None for text in await column(answer, 2)]
        assert shown == values[:1_000]
        await expect(answer.locator("figcaption")).to_contain_text("x at ")
        await expect(answer.get_by_role("slider")).to_be_enabled(enabled=is_drawn)


async def test_a_key_is_asked_for_kept_in_the_tab_and_sent(tab: Tab) -> None:
    async def locked(route: Route) -> None:
        if (await route.request.all_headers()).get("authorization") == "Bearer secret-1":
            return await route.continue_()
        error = {"code": "unauthorized", "message": "A key is needed", "fault": "agent"}
        return await route.fulfill(status=401, json={"ok": False, "error": error})

    await tab.route("**/v1/tools/**", locked)
    await tab.goto(f"/tools/{DOCUMENT}")
    await call(tab)
    await expect(tab.locator("#key-value")).to_be_focused()
    await expect(tab.locator("#key-problem")).to_have_text("This gateway wants an API key.")
    await tab.keyboard.type("secret-1")
    await tab.keyboard.press("Enter")
    await expect(tab.locator("#key")).to_be_hidden()
    await expect(tab.locator("#curl")).to_contain_text("Bearer $GATEWAY_KEY")
    answer = await call(tab)
    await expect(answer.get_by_role("heading")).to_have_text("Answer")
    assert await tab.evaluate("[sessionStorage.length, localStorage.length]") == [1, 0]
    assert "secret-1" not in tab.url + await tab.content()
    await tab.get_by_role("button", name="API key set").click()
    await tab.get_by_role("button", name="Forget it").click()
    assert await tab.evaluate("sessionStorage.length") == 0


async def test_axe_finds_nothing_and_no_page_is_wider_than_a_phone(tab: Tab) -> None:
    source = AXE.read_text(encoding="utf-8")
    long = {"a" * 90: {"b" * 90: "c" * 300}}

    async def check(place: str, part: str = "document") -> None:
        """All of axe's rules in the light scheme; in the dark one what depends on colours."""
        await tab.evaluate(source)
        for scheme, rules in (("light", ""), ("dark", "runOnly: ['color-contrast']")):
            await tab.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            wrong = await tab.evaluate(
                f"axe.run({part}, {{ resultTypes: ['violations'], {rules} }}).then((found) =>"
                " found.violations.map(({ id, impact, nodes }) =>"
                " [id, impact, nodes.map((node) => node.html)]))"
            )
            assert wrong == [], (place, scheme)
        await tab.set_viewport_size({"width": 360, "height": 740})
        assert await tab.evaluate("document.documentElement.scrollWidth") == 360, place
        await tab.set_viewport_size({"width": 1280, "height": 900})

    await tab.goto("/?domain=esg")
    await check("search")
    await tab.goto(f"/tools/{SERIES}")
    await tab.get_by_label("Rows", exact=True).fill("4")
    answer = await call(tab)
    await answer.get_by_role("button", name="收盘").click()
    await expect(answer.locator("svg")).to_be_visible()
    await check("table and plot")
    await tab.get_by_label("symbol", exact=True).fill("5")
    await call(tab)
    await check("error", "'.fields, #result'")
    await answered_by(tab, "evil", {"data": long, "aliases": {"Text": "text"}})
    await tab.goto("/tools/evil")
    await call(tab)
    await tab.locator("#key-open").click()
    await expect(tab.locator("#key-value")).to_be_focused()
    await check("document, notice and key")
    await tab.goto("/docs")
    await tab.evaluate("document.querySelector('details').open = true")
    await check("reference", "'h1, .docs nav, article:first-of-type'")


async def test_counters_are_live_in_a_tab_that_is_seen(tab: Tab) -> None:
    state: dict[str, Any] = {
        "status": "ok",
        "uptime_s": 3725,
        "pending": 2,
        "calls": {"live": 6, "cached": 2, "timeout": 1},
        "hosts": {"a.example": {"in_flight": 3, "waiting": 0, "breaker": "closed"}},
    }
    asked = 0

    async def health(route: Route) -> None:
        nonlocal asked
        asked += 1
        await route.fulfill(json=state)

    await tab.route("**/healthz", health)
    await tab.clock.install()
    await tab.goto("/")
    for name, text in (("calls", "9"), ("cached", "25 %"), ("pending", "2"), ("uptime", "1 h 2 m")):
        await expect(tab.locator(f"#vital-{name}")).to_contain_text(text)
    await expect(tab.locator("#hosts")).to_contain_text("a.example")
    await expect(tab.locator("#outcomes")).to_contain_text("timeout1")
    await expect(tab.locator("#announcer")).to_be_empty()
    state["hosts"]["a.example"]["breaker"] = "open"
    await tab.clock.run_for(2_000)
    await expect(tab.locator("#announcer")).to_have_text("Breakers: a.example: open.")
    await tab.evaluate(
        "Object.defineProperty(document, 'hidden', { get: () => true });"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    before = asked
    await tab.clock.run_for(10_000)
    assert asked == before > 1
