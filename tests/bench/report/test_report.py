"""`finbench report`: what stands in the page, that nothing of a trace becomes markup in it, and, in
a real browser where one is at hand, that it can be read and asks for nothing.
"""

import base64
import json
import os
import random
import re
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from itertools import islice
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import orjson
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from playwright.async_api import Page, expect

from bench.cli.main import main
from bench.record import EpisodeRecord
from bench.report.facts import Facts
from bench.report.plots import days_figure
from bench.report.report import write
from bench.report.timeline import BINS, Timeline
from bench.report.trajectories import script_safe
from bench.runs.metrics import RunMetrics
from bench.runs.reader import Run
from bench.runs.resume import settle
from bench.suites.fintoolbench.paper import PUBLISHED
from bench.suites.fintoolbench.suite import LabelledTasks
from bench.suites.suite import Chart
from gateway import CallRecord
from gateway.common.html import breakable
from manifests.common.terminal import plain
from tests.support.browser import browser, check, new_tab
from tests.support.runs import call, episode, failing, write_run
from tests.support.shown import EVIL, hostile

DATA = "application/json"


def traced(number: int, **more: Any) -> CallRecord:
    failed = number % 4 == 0
    made = CallRecord(
        call_id=f"c{number}",
        at=1_700_000_000.0 + number / 10,
        tool=f"tool_{number % 7}",
        host=f"host-{number % 3}.example",
        arguments={},
        ok=not failed,
        code="timeout" if failed else None,
        fault="tool" if failed else None,
        message=None,
        source=None if failed else ("live", "cached", "simulated")[number % 3],
        upstream="simulated",
        age_s=0.0,
        attempts=1,
        elapsed_ms=1.0 + number,
        rows=None,
        digest=None,
        bytes=4,
        episode=f"task_{number}.0",
        step=1,
    )
    return replace(made, **more)


def episodes() -> list[EpisodeRecord]:
    plain = [episode(n, call(), call(2)) if n % 3 else failing(n) for n in range(60)]
    plain[1] = replace(episode(1), question="一年期国债收益率是多少？")
    return [*plain, hostile()]


def run_of(path: Path, *calls: CallRecord, records: list[EpisodeRecord], **about: Any) -> Path:
    run = write_run(path, records, **about)
    lines = (orjson.dumps(made, option=orjson.OPT_APPEND_NEWLINE) for made in calls)
    (run / "calls.jsonl").write_bytes(b"".join(lines))
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    evil = traced(3, tool=EVIL, host=EVIL, code=EVIL, fault=EVIL, ok=False, message=EVIL)
    return run_of(
        tmp_path_factory.mktemp("report") / "run",
        *[traced(n) for n in range(200)],
        evil,
        replace(evil, ok=True, source=EVIL),
        records=episodes(),
        suite="fintoolbench",
        upstream="simulated",
        model=EVIL,
        started_at=1_700_000_000.0,
        took_s=20.0,
        calls_per_s=10.1,
        most_in_flight=9,
    )


@pytest.fixture(scope="module")
def page(run: Path) -> str:
    return write(run).path.read_text(encoding="utf-8")


def finbench(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["report", *map(str, arguments)])


class Markup(HTMLParser):
    """The elements of a page, what they refer to, and the content of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.raw: list[tuple[dict[str, str | None], str]] = []
        self._of: dict[str, str | None] | None = None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self._of = {"tag": tag, **dict(attrs)} if tag in ("script", "style") else None

    def handle_data(self, data: str) -> None:
        if self._of is not None:
            self.raw.append((self._of, data))
            self._of = None


def values(page: str, name: str) -> list[str]:
    """The cells of a row of a table."""
    row = re.search(rf'<th scope="row" class="name">{name}</th>(.*?)</tr>', page, re.DOTALL)
    assert row is not None, name
    return [cell.strip() for cell in re.findall(r"<td[^>]*>(.*?)</td>", row.group(1), re.DOTALL)]


def test_metrics_are_computed_from_the_records(run: Path, page: str) -> None:
    counted = RunMetrics(LabelledTasks)
    for record in Run.open(run).records():
        counted.add(record)
    metrics = counted.result()
    low, high = metrics["intervals"]["TESR"]
    assert not (run / "metrics.json").exists()
    assert values(page, "TIR")[:3] == [f"{60 / 61:.1%}", "91.3% to 99.7%", "60 of 61"]
    assert values(page, "TESR")[:3] == [f"{39 / 61:.1%}", f"{low:.1%} to {high:.1%}", "39 of 61"]
    assert values(page, "Soft score")[:3] == ["75.0%", "0.0% to 100.0%", "1 of 61"]
    assert values(page, "IMR")[0::2][:2] == ["1.7%", "1 of 60, 1 with a verdict; 60 of 61 episodes"]
    assert values(page, "DMR")[0] == "not judged"
    assert values(page, r"task_<wbr>\w*|category 0")[0] == "20"
    assert values(page, "answer") == ["60", "98.4%"]
    assert values(page, "tool") == ["timeout", "50", "98.0%"]
    assert values(page, "other")[0] == "1", "answers of a source that nobody knows"
    assert values(page, "failed")[0] == "51"
    assert "<dt>Calls</dt><dd>202<small>51 failed</small></dd>" in page


def test_what_is_simulated_is_said_in_words(tmp_path: Path, page: str) -> None:
    assert "<strong>Simulated:</strong> answers are simulated" in page
    told: dict[str, dict[str, Any]] = {
        "the agent is scripted": {"agent_is_simulated": True},
        "the model is simulated": {"model": "simulated-planner"},
        "answers are simulated (1 of them)": {},
    }
    for text, about in told.items():
        made = run_of(tmp_path / text, traced(1), records=[], upstream="live", **about)
        assert text in write(made).path.read_text()
    real = run_of(tmp_path / "real", traced(1, upstream="live"), records=[], upstream="live")
    assert "Simulated:" not in write(real).path.read_text()


def test_published_figures_stand_beside_runs_of_their_suite_only(tmp_path: Path, page: str) -> None:
    assert "published (paper)" in page
    assert values(page, "TIR")[3:] == ["65.1%", "87.1%", "44.1%", "22.7%"]
    assert values(page, "TESR, text rule")[3:] == ["32.5%", "29.5%", "21.0%", "14.0%"]
    assert values(page, "TESR")[3:] == ["–"] * 4
    for model in PUBLISHED:
        assert page.count(model) >= 2, "in the table and in the figure"
    other = write(run_of(tmp_path / "other", records=[episode(1, call())])).path.read_text()
    assert "published" not in other
    assert "GPT-4o" not in other


def test_the_page_holds_nothing_foreign_and_its_policy_allows_nothing_else(page: str) -> None:
    markup = Markup(page)
    assert not markup.tags & {"img", "iframe", "link", "object", "embed", "foreignobject", "base"}
    given = {name for name, _ in markup.attributes}
    assert not [name for name in given if name == "style" or name.startswith("on")]
    links = [v for n, v in markup.attributes if n in ("src", "href", "action", "xlink:href")]
    assert links
    assert all(link.startswith("#") for link in links)
    assert "{{" not in page.replace("{{7*7}}", "")
    assert "<!--" not in page
    policy = next(value for name, value in markup.attributes if value.startswith("default-src"))
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    contents = {of.get("type") or of["tag"]: text for of, text in markup.raw}
    assert contents.keys() == {"style", "module", DATA}
    for kind, holder in (("style", "style"), ("script", "module")):
        digest = base64.b64encode(sha256(contents[holder].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    shown = json.loads(contents[DATA])
    assert shown[0]["episode"] == "task_0.0"
    (evil,) = [found for found in shown if found["episode"] == "task_77.0"]
    seen = (evil["question"], evil["tool_calls"][1]["output"], evil["ending"])
    assert seen == (plain(EVIL),) * 3
    assert not re.search(
        r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", page
    )
    assert "\\u001b[2J\\u202e" in page
    ids = [value for name, value in markup.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_each_figure_says_in_words_what_is_to_be_seen(page: str) -> None:
    said = re.findall(r'<svg [^>]*aria-label="([^"]+)"', page)
    assert len(said) == 5
    assert said[0].startswith("Metrics with intervals of 95 %: TIR 98.4%")
    assert "at most" in said[1]
    assert "simulated median" in said[3]
    assert said[4] == "Failed calls by code and owner: timeout (tool) 50, other (other) 1."


def test_days_of_a_trace_may_have_any_values() -> None:
    odd: list[Any] = [1.0, float("nan"), float("inf"), None, "x", 2**63]
    panels = {"value": {"a": odd, EVIL: odd[::-1]}, "position": {"": [0.0] * 6}}
    drawn = days_figure(Chart("t", "text", [f"2024-01-0{n}" for n in range(1, 7)], panels))
    ElementTree.fromstring(drawn)  # noqa: S314 - ours
    assert "nan" not in drawn
    assert "inf" not in drawn.replace("fin", "")


def test_failed_episodes_come_first_up_to_a_limit(run: Path, tmp_path: Path) -> None:
    done = finbench(run, "--out", tmp_path / "few.html", "--trajectories", 25)
    assert done.exit_code == 0, done.output
    page = (tmp_path / "few.html").read_text()
    size = (tmp_path / "few.html").stat().st_size / 2**20
    assert done.output == f"{tmp_path / 'few.html'}: {size:.2f} MiB, 25 of 61 episodes\n"
    assert "25 of the 61 episodes of the run are in this page" in page
    (shown,) = [json.loads(t) for of, t in Markup(page).raw if of.get("type") == DATA]
    assert [found["passed"] for found in shown] == [False] * 22 + [True] * 3
    assert [found["episode"] for found in shown[-3:]] == ["task_2.0", "task_4.0", "task_5.0"]
    assert "No episode" not in page
    assert finbench(run, "--out", tmp_path / "none.html", "--trajectories", 0).exit_code == 0
    assert (tmp_path / "none.html").stat().st_size < (tmp_path / "few.html").stat().st_size
    assert not list(tmp_path.glob("*.part"))


def test_runs_that_were_cut_off_or_never_called(tmp_path: Path) -> None:
    cut = run_of(tmp_path / "cut", traced(1), records=episodes(), ended="interrupted", episodes=100)
    for name in ("calls", "episodes"):
        with (cut / f"{name}.jsonl").open("ab") as file:
            file.write(b'{"call_id": "c2", "at"')
    page = write(cut).path.read_text()
    assert "This run did not end.</strong> 61 of 100 episodes are on record." in page
    assert "Run digest" not in page

    empty = write(run_of(tmp_path / "empty", records=[])).path.read_text()
    assert "No call was made." in empty
    assert "No episode is on record." in empty
    assert "<svg" not in empty

    changed = run_of(tmp_path / "changed", traced(1), records=[], digest="0" * 64)
    page = write(changed).path.read_text()
    assert "The files are not those that the run left." in page


def test_a_report_does_not_stop_a_run_from_going_on(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", traced(1), records=[episode(n, call()) for n in range(3)])
    write(run)
    assert settle(run, failed_too=False).finished == {"task_0.0", "task_1.0", "task_2.0"}
    assert (run / "report.html").is_file()


def test_what_can_not_be_done_is_said(run: Path, tmp_path: Path) -> None:
    refused = finbench(tmp_path)
    assert (refused.exit_code, "holds no run: run.json" in refused.output) == (1, True)
    assert finbench(run, "--out", tmp_path / "new" / "page.html").exit_code == 0
    refused = finbench(run, "--out", tmp_path / "new" / "page.html")
    assert (refused.exit_code, "exists already; --force" in refused.output) == (1, True)
    assert finbench(run, "--out", tmp_path / "new" / "page.html", "--force").exit_code == 0
    assert finbench(run, "--out", "").exit_code == 2
    before = (run / "calls.jsonl").read_bytes()
    refused = finbench(run, "--out", run / ".." / run.name / "calls.jsonl")
    assert (refused.exit_code, "a file of the run itself" in refused.output) == (1, True)
    assert (run / "calls.jsonl").read_bytes() == before
    os.mkfifo(tmp_path / "pipe")
    assert finbench(run, "--out", tmp_path / "pipe").exit_code == 1
    assert (tmp_path / "pipe").is_fifo()
    assert finbench(tmp_path / "missing").exit_code == 2


@given(st.dictionaries(st.text(), st.text()))
def test_json_in_a_script_means_the_same_and_ends_nothing(value: dict[str, str]) -> None:
    text = script_safe([value, EVIL])
    assert json.loads(text) == [value, EVIL]
    assert not set(text) & set("<>&\u2028\u2029")


Lived = st.tuples(st.floats(1, 1e7), st.floats(0, 1e7))


@given(st.lists(Lived, min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_a_timeline_is_exact_bounded_and_the_same_in_any_order(
    lives: list[tuple[float, float]], rng: random.Random
) -> None:
    def drawn() -> Timeline:
        timeline = Timeline()
        for at_s, elapsed_ms in lives:
            timeline.add_episode(at_s, elapsed_ms)
            timeline.add_call(at_s, ok=elapsed_ms > 10)
        return timeline

    timeline = drawn()
    spans, width_s = timeline.spans(), timeline.width_s
    assert len(spans) <= BINS
    assert sum(span.calls_per_s for span in spans) * width_s == pytest.approx(len(lives))
    lived_s = sum(span.in_flight for span in spans) * width_s
    assert lived_s == pytest.approx(sum(round(ms) for _, ms in lives) / 1e3, abs=1e-3)
    assert all(span.in_flight >= 0 for span in spans)
    rng.shuffle(lives)
    assert drawn().spans() == spans


def test_a_timeline_knows_how_many_were_in_flight() -> None:
    timeline = Timeline()
    for start_s in (100.0, 100.2, 100.4):
        timeline.add_episode(start_s, 1_000)
    timeline.add_episode(0.0, 5.0)
    at = {round(100 + span.at_s, 1): span.in_flight for span in timeline.spans()}
    assert [at[time] for time in (100.1, 100.3, 100.5, 101.1, 101.3)] == [1, 2, 3, 2, 1]


def test_memory_does_not_grow_with_the_run() -> None:
    def records() -> Iterator[EpisodeRecord | CallRecord]:
        for n in range(1_000_000):
            yield traced(n)
            if n % 4 == 0:
                yield replace(failing(n), id=f"task_{n % 300}", category=f"category {n % 20}")

    facts, made = Facts(LabelledTasks, trajectories=100), records()

    def add(number: int) -> int:
        for record in islice(made, number):
            facts.add(record)
        return tracemalloc.get_traced_memory()[0]

    add(6_000)
    tracemalloc.start()
    before = add(1_000)  # what was kept is replaced, and traced from now on
    grown = add(5_000) - before
    tracemalloc.stop()
    assert grown < 50_000
    assert len(facts.trajectories) == 100
    assert facts.trajectories.episodes > 2_000


def test_names_break_after_marks_and_within_a_word_only_if_it_is_very_long() -> None:
    assert breakable("www.policyuncertainty.com/a_b") == (
        "www.<wbr>policyuncertainty.<wbr>com/<wbr>a_<wbr>b"
    )
    assert breakable("<b>" + "x" * 30) == f"&lt;b&gt;{'x' * 21}<wbr>{'x' * 9}"
    assert breakable("") == ""


@pytest.mark.anyio
async def test_in_a_browser(run: Path) -> None:
    """Read by keyboard, filtered, in both colour schemes, as wide as a phone."""
    said: list[str] = []
    async with browser() as chromium:
        tab = await new_tab(chromium, 360, said)
        page = write(run, force=True).path.as_uri()
        tab.on("request", lambda request: said.append(request.url))
        await tab.goto(page)
        await expect(tab).to_have_title(
            f"fintoolbench by llm with {plain(EVIL)} · Finport run report"
        )
        await read_episodes(tab)
        captions = "[...document.querySelectorAll('.scroll caption')]"
        ends = await tab.evaluate(f"{captions}.map((c) => c.getBoundingClientRect().right)")
        assert max(ends) <= 360, "a table that is wider scrolls below its caption"
        await check(tab, 360)
        ink = "getComputedStyle(document.querySelector('svg .fill-ink')).fill"
        assert await tab.evaluate(ink) == "rgb(227, 234, 236)"
    assert said == [page]


async def read_episodes(tab: Page) -> None:
    found, rows = tab.locator("#found"), tab.locator(".episode")
    await expect(found).to_have_text("61 of 61 episodes, the first 50 are listed")
    await tab.get_by_role("button", name="Show more").press("Enter")
    await expect(rows).to_have_count(61)
    await expect(rows.nth(50).locator("summary")).to_be_focused()
    for label, value, count in (
        ("Outcome", "no call", 1),
        ("Outcome", "not passed", 22),
        ("Category", "category 0", 20),
    ):
        await tab.get_by_label(label, exact=True).select_option(value)
        await expect(rows).to_have_count(count)
    await tab.get_by_label("Outcome", exact=True).select_option("any")
    await tab.get_by_label("Category", exact=True).select_option("any")
    await tab.get_by_role("searchbox", name="Text").fill("收益率 国债")
    await expect(found).to_have_text("1 of 61 episodes")
    await tab.get_by_role("searchbox", name="Text").fill("task_77.0 onerror")
    await expect(rows).to_have_count(1)
    await rows.locator("summary").press("Enter")
    inside = rows.locator(".inside")
    for text in ("Round 2", "Response 1", "scores 0.5, 1", "intent does not match", "1200"):
        await expect(inside).to_contain_text(text)
    await expect(inside.locator(".call").nth(1)).to_contain_text("<img src=x onerror=")
    assert await tab.locator("img").count() == 0
