"""`finbench view`: what its pages say of the runs of a folder, over HTTP, and in a real browser
where one is at hand.
"""

import asyncio
import os
import re
import signal
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from playwright.async_api import expect

from bench.record import EpisodeRecord, Judgement, ModelCallRecord
from bench.view import listing, runs_page
from bench.view.listing import Listing
from bench.view.site import Site
from tests.support.browser import browser, check, new_tab
from tests.support.commands import finbench, finbench_begun
from tests.support.runs import call, episode, failing
from tests.support.shown import EVIL, hostile, write_scored
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio


def records() -> list[EpisodeRecord]:
    """Passed, with a failed call, answered wrongly, and ended by an error."""
    asked = ModelCallRecord(1, "act", "m-1", 0.0, 9.0, input_tokens=100, output_tokens=20)
    wrong = replace(episode(2, call(), scores=[0, 0, 0.5]), execution_result="41")
    failed = replace(episode(3, call()), error="no answer", ending="model_error")
    failed = replace(failed, execution_result="")
    return [
        replace(episode(0, call(), scores=[1, 1, 1]), model_calls=[asked]),
        replace(failing(1), question="一年期国债收益率是多少？"),
        wrong,
        failed,
        *(episode(n, call()) for n in range(4, 130)),
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of two agents, one below another folder, a hostile one and broken ones."""
    root = tmp_path_factory.mktemp("view")
    prices = {"currency": "USD", "models": {"m-1": {"input": 10_000, "output": 50_000}}}
    write_scored(root / "first", records(), model="m-1", seed=3, prices=prices)
    other = [replace(one, tool_calls=[call()]) for one in records()[1:]]
    write_scored(root / "old" / "second", other, model="m-2", agent="fatr")
    write_scored(root / "third", records()[:40], model="m-2", started_at=1_600_000_000.0)
    judgement = Judgement(EVIL, EVIL, extracted=EVIL, by_metric={EVIL: [1]})
    evil = replace(hostile(), episode=EVIL, id=EVIL, judgement=judgement)
    for seed, name in enumerate(("evil", "evil-2", "evil-3")):
        odd = {"model": EVIL, "agent": EVIL, "upstream": EVIL, "judge": EVIL}
        write_scored(root / name, [evil], suite="evil", seed=seed, **odd)
    (root / "cut").mkdir()
    (root / "cut" / "run.json").write_bytes(b'{"suite": ')
    (root / "piped").mkdir()
    os.mkfifo(root / "piped" / "run.json")
    (root / "linked").symlink_to(root / "first")
    (root / ".hidden").symlink_to(root / "first")
    write_scored(root / "own", records()[:1], suite="mine:Mine")
    spoilt = write_scored(root / "spoilt", records()[:1])
    (spoilt / "metrics.json").unlink()
    (spoilt / "metrics.json").symlink_to("/etc/passwd")
    return root


WIDTHS = (360, 800, 1280)


class Reader:
    """Reads the pages of a site."""

    def __init__(self, url: str, client: aiohttp.ClientSession) -> None:
        self.url = url
        self.client = client

    async def page(self, path: str = "", status: int = 200, /, **query: Any) -> str:
        """A page, once it is there."""
        while True:
            async with self.client.get(self.url + path, params=query) as response:
                text = await response.text()
                if response.status != 202:
                    assert response.status == status, text
                    return text


@asynccontextmanager
async def reading(root: Path) -> AsyncIterator[Reader]:
    async with (
        Site.open(Listing(root), "127.0.0.1", 0) as url,
        aiohttp.ClientSession() as client,
    ):
        yield Reader(url, client)


@pytest.fixture(scope="module")
async def reader(folder: Path) -> AsyncIterator[Reader]:
    async with reading(folder) as made:
        yield made


def names(page: str) -> list[str]:
    """The runs of a list, in its order."""
    found = re.findall(r'<th scope="row" class="name">(.*?)(?:<small|</th>)', page, re.DOTALL)
    return [re.sub(r"<.*?>", "", one) for one in found]


def title(page: str) -> str:
    found = re.search(r"<title>(.*?)</title>", page, re.DOTALL)
    assert found is not None
    return found[1]


async def test_the_list_has_every_run_with_its_figures(reader: Reader) -> None:
    page = await reader.page()
    known = ["evil", "evil-2", "evil-3", "first", "old/second", "own", "spoilt", "third"]
    assert names(page) == [*known, "cut", "piped"]
    assert "Runs in view" in title(page)
    first = re.sub(r"(<.*?>|\s)+", " ", page.split("<tr>")[5])
    for text in (
        "m-1",
        "llm",
        "rules",
        "complete",
        "130",
        "TESR 98.5%",
        "94.6% to 99.6%",
        " 3 ",
        "2.00 USD",
    ):
        assert text in first, first
    assert "run.json: not JSON" in page
    assert "run.json: it is not a regular file" in page
    assert "metrics.json: it is a symbolic link" in page
    assert "linked" not in page


async def test_the_list_is_filtered_and_sorted_without_a_script(reader: Reader) -> None:
    assert "<script" not in await reader.page()
    assert names(await reader.page(model="m-2")) == ["old/second", "third"]
    assert names(await reader.page(suite="starter", sort="began"))[0] == "third"
    page = await reader.page(suite="starter", sort="-m:TESR")
    assert names(page) == ["old/second", "first", "third", "spoilt"]
    assert 'aria-sort="descending"><a href="/?suite=starter&amp;sort=m%3ATESR">TESR' in page
    assert names(await reader.page(q="FATR m-2")) == ["old/second"]
    for odd in ({"sort": "nonsense"}, {"page": "-1"}, {"page": "9" * 50}, {"q": EVIL}):
        await reader.page("", **odd)


async def test_figures_of_others_may_be_anything(tmp_path: Path) -> None:
    wrong = [b"[]", b'{"intervals": {"TESR": "x"}}', b'{"usage": 1}', b"[" * 100_000, b"\xff"]
    odd = [b"{}", b'{"episodes": 1, "TESR": 1%s}' % (b"0" * 400), b'{"episodes": 1, "TESR": {}}']
    for n, text in enumerate(wrong + odd):
        (write_scored(tmp_path / f"{n}", []) / "metrics.json").write_bytes(text)
    async with reading(tmp_path) as reader:
        page = await reader.page()
    assert len(names(page)) == len(wrong + odd)
    assert page.count("metrics.json: not the metrics of a run") == len(wrong)


async def test_a_list_follows_its_folder(tmp_path: Path) -> None:
    async with reading(tmp_path) as reader:
        assert "No run is here" in await reader.page()
        run = write_scored(tmp_path / "a", records()[:2], ended="interrupted", episodes=9)
        page = await reader.page()
        assert ">running<" in page
        assert "of 9" in page
        os.utime(run / "run.json", (1, 1))
        assert ">interrupted<" in await reader.page()
        assert "2 of 2 episodes" in await reader.page("run", name="a")
        with (run / "episodes.jsonl").open("ab") as file:
            file.write(orjson.dumps(episode(5, call()), option=orjson.OPT_APPEND_NEWLINE))
        assert "3 of 3 episodes" in await reader.page("run", name="a")


async def test_what_is_left_out_of_a_list_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MOST_RUNS", 2)
    async with reading(folder) as reader:
        page = await reader.page()
        assert len(names(page)) == 2
        assert "There are more than 2: name a folder below this one." in page
    monkeypatch.setattr(listing, "MOST_FOLDERS", 3)
    async with reading(folder) as reader:
        assert "Only 3 folders were looked into." in await reader.page()


async def test_many_runs_are_listed_by_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs_page, "A_PAGE", 10)
    for n in range(25):
        write_scored(tmp_path / f"run-{n:03}", [], started_at=1_700_000_000.0 + n)
    async with reading(tmp_path) as reader:
        assert names(await reader.page())[::9] == ["run-024", "run-015"]
        page = await reader.page(page="3")
        assert len(names(page)) == 5
        assert "Page 3 of 3" in page
        assert names(await reader.page(page="99")) == names(page)


async def test_a_run_is_its_report_with_its_episodes_by_pages(reader: Reader) -> None:
    page = await reader.page("run", name="first")
    assert title(page) == "first · starter by llm with m-1 · Finport"
    assert "FinToolBench&#39;s metrics, with intervals of 95 %" in page
    assert "130 of 130 episodes" in page
    assert "Page 1 of 2" in page
    last = await reader.page("run", name="first", page="2")
    assert last.count('class="row"') == 30


@pytest.mark.parametrize(
    ("show", "found"),
    [
        ("wrong", ["task_2.0"]),
        ("failed-call", ["task_1.0"]),
        ("error", ["task_3.0"]),
        ("not-passed", ["task_1.0", "task_3.0"]),
    ],
)
async def test_episodes_are_chosen_by_what_went_wrong(
    reader: Reader, show: str, found: list[str]
) -> None:
    page = await reader.page("run", name="first", show=show)
    assert re.findall(r"episode=(task_\d+\.0)", page) == found


async def test_episodes_are_found_by_text(reader: Reader) -> None:
    page = await reader.page("run", name="first", q="国债 task_1.0")
    assert "1 of 130 episodes" in page
    page = await reader.page("episode", run="first", episode="task_2.0", show="wrong")
    assert "Next" not in page, "there is no other wrong answer"


async def test_an_episode_is_shown_whole(reader: Reader) -> None:
    page = await reader.page("episode", run="first", episode="task_1.0")
    assert title(page) == "task_1.0 · starter by llm with m-1 · Finport"
    for text in (
        "一年期国债收益率是多少？",
        "Round 2",
        "invalid_arguments · agent",
        "&#34;uuid&#34;",
    ):
        assert text in page
    assert 'episode=task_0.0&amp;run=first" rel="prev"' in page
    assert 'episode=task_2.0&amp;run=first" rel="next"' in page
    page = await reader.page("episode", run="first", episode="task_2.0")
    assert "0, 0, 0.5" in page
    assert "answered wrongly" in page


async def test_two_runs_are_compared_task_by_task(reader: Reader) -> None:
    page = await reader.page("compare", run=["first", "old/second"])
    assert title(page) == "starter: llm with m-1 and fatr with m-2 · Finport"
    assert "Fail to pass: 1" in page
    assert "Pass to fail: 0" in page
    assert re.search(r"<td>model</td>|>model</th>", page)
    assert "/run?name=old%2Fsecond&amp;q=task_1#episodes" in page
    text = await reader.page("compare", 422, run=["first", "evil"])
    assert "no task is in both runs" in text


async def test_more_runs_are_compared_in_a_table(reader: Reader) -> None:
    page = await reader.page("compare", run=["first", "old/second", "third"])
    assert title(page) == "starter: llm with m-1, fatr with m-2, llm with m-2 · Finport"
    assert "Ranks are by TESR" in page
    assert names(page) == ["first", "old/second", "third"]


async def test_what_there_is_not_is_said(reader: Reader) -> None:
    for path, query in (
        ("run", {"name": "none"}),
        ("run", {}),
        ("run", {"name": "../view/first"}),
        ("run", {"name": "linked"}),
        ("episode", {"run": "first", "episode": "none"}),
        ("compare", {"run": "first"}),
        ("nothing", {}),
    ):
        assert "No such page" in await reader.page(path, 404, **query)
    assert "not JSON" in await reader.page("run", 422, name="cut")
    assert "--suite mine:Mine" in await reader.page("run", 422, name="own")


async def test_only_this_machine_reads_and_nobody_writes(reader: Reader) -> None:
    for host, status in (("evil.example", 403), ("localhost:1", 200), ("", 403)):
        async with reader.client.get(reader.url, headers={"Host": host}) as response:
            assert response.status == status, host
    async with reader.client.get(reader.url, headers={"Origin": "http://a.example"}) as response:
        assert "Access-Control-Allow-Origin" not in response.headers
        policy = response.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert policy.endswith("form-action 'self'; frame-ancestors 'none'")
    async with reader.client.post(reader.url) as response:
        assert response.status == 405


async def test_no_text_of_a_run_becomes_markup(reader: Reader) -> None:
    pages = [
        await reader.page(q=EVIL),
        await reader.page("run", name="evil"),
        await reader.page("episode", run="evil", episode=EVIL),
        await reader.page("run", 404, name=EVIL),
        await reader.page("episode", 404, run="evil", episode=EVIL + EVIL),
        await reader.page("compare", run=["evil", "evil-2"]),
        await reader.page("compare", run=["evil", "evil-2", "evil-3"]),
    ]
    for page in pages:
        assert "<img" not in page
        assert "<!--" not in page
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", page)
    assert "\\u202e" in pages[1]


async def test_folders_may_have_any_name_and_runs_any_file(tmp_path: Path) -> None:
    odd = ["a\u202eb", "a\\u202eb", "a&b=c <i>", "線", os.fsdecode(b"\xff")]
    for name in odd:
        write_scored(tmp_path / name, records()[:3])
    os.mkfifo(write_scored(tmp_path / "pipe", []) / "pipe")
    piped = write_scored(tmp_path / "piped", [])
    (piped / "episodes.jsonl").unlink()
    os.mkfifo(piped / "episodes.jsonl")
    spoilt = write_scored(tmp_path / "spoilt", records()[:3])
    with (spoilt / "episodes.jsonl").open("ab") as file:
        file.write(b'{"episode": 1}\n')
    async with reading(tmp_path) as reader:
        links = re.findall(r'href="/(run\?name=[^"]+)"', await reader.page())
        assert len(links) == len(odd) + 3
        said = [
            await reader.page(link.replace("&amp;", "&"), *status)
            for link in links
            for status in [(422,) if "piped" in link or "spoilt" in link else ()]
        ]
    assert sum("3 of 3 episodes" in page for page in said) == len(odd)
    assert any("episodes.jsonl: it is not a regular file" in page for page in said)
    assert any("episodes.jsonl:4: not a record" in page for page in said)


def test_a_host_that_others_reach_and_a_taken_port_are_refused(tmp_path: Path) -> None:
    done = finbench("view", str(tmp_path), "--host", "0.0.0.0")
    assert done.returncode == 2
    assert "127.0.0.1, ::1 or localhost" in done.stderr
    assert finbench("view", str(tmp_path / "none")).returncode == 2
    done = finbench("view", str(tmp_path), "--suite", "none_such:Suite")
    assert (done.returncode, "none_such" in done.stderr) == (2, True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = finbench("view", str(tmp_path), "--port", port)
    assert done.returncode == 1
    assert f"port {port} of 127.0.0.1 is in use; --port 0" in done.stderr


async def test_the_command_serves_until_it_is_told_to_end(folder: Path, tmp_path: Path) -> None:
    begun = finbench_begun("view", str(folder), stdout=subprocess.PIPE, cwd=tmp_path)
    try:
        assert begun.stdout is not None
        line = await asyncio.to_thread(begun.stdout.readline)
        found = re.fullmatch(
            r"finbench view: (http://127\.0\.0\.1:\d+/)  \(Ctrl-C ends it\)\n", line
        )
        assert found is not None, line
        async with aiohttp.ClientSession() as client:
            assert "Runs in view" in await Reader(found[1], client).page()
        begun.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(begun.wait, PATIENCE_S) == 0
    finally:
        begun.kill()
        begun.communicate()


async def test_the_command_ends_while_it_reads(tmp_path: Path) -> None:
    line = orjson.dumps(episode(0, call()), option=orjson.OPT_APPEND_NEWLINE)
    run = write_scored(tmp_path / "runs" / "long", [])
    (run / "episodes.jsonl").write_bytes(line * 50_000)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    begun = finbench_begun("view", "runs", **streams, cwd=tmp_path)
    try:
        assert begun.stdout is not None
        url = (await asyncio.to_thread(begun.stdout.readline)).split()[2]
        async with aiohttp.ClientSession() as client:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    await client.get(f"{url}run?name=long")
        begun.send_signal(signal.SIGTERM)
        _, told = await asyncio.to_thread(begun.communicate, timeout=PATIENCE_S)
        assert (begun.returncode, told) == (0, "")
    finally:
        begun.kill()
        begun.communicate()


async def test_in_a_browser(reader: Reader) -> None:
    """From the list to a wrong answer and to a comparison, without a word in the console; each page
    at three widths.
    """
    said: list[str] = []
    async with browser() as chromium:
        tab = await new_tab(chromium, 1280, said)
        await tab.goto(reader.url)
        await check(tab, *WIDTHS)
        await tab.get_by_label("Model", exact=True).select_option("m-2")
        await tab.get_by_role("button", name="Filter").click()
        await expect(tab.get_by_role("status")).to_have_text("2 of 10 runs.")
        await tab.goto(reader.url)
        await tab.get_by_role("link", name="first").click()
        await expect(tab).to_have_title("first · starter by llm with m-1 · Finport")
        await check(tab, *WIDTHS)
        await tab.get_by_label("Show").select_option("answered wrongly")
        await tab.get_by_role("button", name="Filter").click()
        await tab.locator(".row").click()
        await expect(tab).to_have_title("task_2.0 · starter by llm with m-1 · Finport")
        await check(tab, *WIDTHS)
        await tab.goto(reader.url)
        for name in ("first", "old/second"):
            await tab.get_by_label(f"Compare {name}").check()
        await tab.get_by_role("button", name="Compare").click()
        await expect(tab).to_have_title("starter: llm with m-1 and fatr with m-2 · Finport")
        await check(tab, *WIDTHS)
        await tab.goto(reader.url + "compare?run=first&run=third&run=old%2Fsecond")
        await check(tab, *WIDTHS)
    assert said == []
