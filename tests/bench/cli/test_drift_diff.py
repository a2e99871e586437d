"""`finbench drift diff` as a user runs it: hosts, levels, rules, files that it writes, a series,
and snapshots that are not what they should be.
"""

import json
import os
import random
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import async_playwright

from cache import Row
from cache.snapshot import JOURNAL
from gateway.errors import ErrorCode
from tests.support.answers import DAY_S, START, document, error, snapshot, table
from tests.support.commands import FINBENCH, finbench
from tests.support.installed import AXE, CHROMIUM, skip_without_a_browser
from tests.support.processes import children, is_running
from tests.support.waiting import PATIENCE_S, block_until

HOST = "chinabond.com.cn"
OF_HOST = ("bond_china_yield", "bond_composite_index_cbond", "bond_new_composite_index_cbond")
ALSO = ("futures_hog_core", "futures_hog_cost", "futures_hog_supply")
"""All tools of another host."""

EVIL = "</title><img src=x onerror='document.title=1'>|[a](https://b.example)@me\n"
EVIL += "# `x`\x1b[2J\u202e{{7}}"
ARGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]


Sides = Callable[[list[Row], list[Row]], tuple[Path, Path]]


def diff(*words: object) -> subprocess.CompletedProcess[str]:
    return finbench("drift", "diff", *map(str, words))


def content(*words: object) -> dict[str, Any]:
    done = diff(*words, "--json")
    assert done.returncode == 0, done.stderr
    made: dict[str, Any] = json.loads(done.stdout)
    return made


def told(made: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    return [(f["level"], f["check"], f["tool"] or f["host"]) for f in made["findings"]]


@pytest.fixture
def sides(tmp_path: Path) -> Sides:
    """Makes two snapshots."""

    def make(before: list[Row], after: list[Row]) -> tuple[Path, Path]:
        return snapshot(tmp_path / "a.snapshot", before), snapshot(tmp_path / "b.snapshot", after)

    return make


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An ERR, a WARN and an INFO, each of another tool."""
    folder = tmp_path_factory.mktemp("pair")
    before = [document("coins_a", 1), document("coins_b", {"a": 1}), document("c", {"a": 1})]
    before.append(error("c_2", ErrorCode.TIMEOUT))
    after = [error("coins_a", ErrorCode.TIMEOUT), document("coins_b", {"a": 2, "b": 1})]
    after += [document("c", {"a": 1}), error("c_2", ErrorCode.UPSTREAM_ERROR)]
    return snapshot(folder / "a", before), snapshot(folder / "b", after)


def test_what_all_tools_of_a_host_have_in_common_is_one_finding_more(sides: Sides) -> None:
    before = [document(tool, {"a": 1}) for tool in (*OF_HOST, *ALSO)]
    after = [error(tool, ErrorCode.UPSTREAM_ERROR) for tool in OF_HOST]
    after += [document(tool, {"a": 1}, ms=500.0) for tool in ALSO]
    made = content(*sides(before, after))
    assert told(made) == [
        ("ERR", "availability", HOST),
        *(("ERR", "availability", tool) for tool in OF_HOST),
        ("WARN", "latency", "yangzhu.vip"),
    ]
    assert made["findings"][0]["text"] == f"all 3 tools of {HOST} that answered fail now"
    slower = made["findings"][-1]
    assert (slower["before"], slower["after"]) == (100.0, 500.0)
    assert [row["host"] for row in made["hosts"]] == [HOST, "yangzhu.vip"]
    assert made["hosts"][0] == {"host": HOST, "tools": 3, "ERR": 4, "WARN": 0, "INFO": 0}


def test_a_host_of_which_some_tools_answer_is_no_finding(sides: Sides) -> None:
    before = [document(tool, {"a": 1}) for tool in (*OF_HOST, *ALSO)]
    after = [error(tool, ErrorCode.UPSTREAM_ERROR) for tool in OF_HOST[1:]]
    after += [document(tool, {"a": 1}, ms=500.0 if tool == ALSO[0] else 120.0) for tool in ALSO]
    after.append(document(OF_HOST[0], {"a": 1}))
    made = content(*sides(before, after))
    assert told(made) == [("ERR", "availability", tool) for tool in OF_HOST[1:]]


@pytest.mark.parametrize(
    ("rules", "exits"),
    [
        ("", [1, 1, 1]),
        ('leave_out = ["coins_a"]', [0, 1, 1]),
        ('leave_out = ["coins_*", "c_?"]', [0, 0, 0]),
        ('[levels]\navailability = "INFO"\nerror_code = "off"', [0, 0, 1]),
        ('[tools."*"]\navailability = "off"\n[tools.c_2]\nerror_code = "INFO"', [0, 0, 1]),
        ('[levels]\npath_added = "ERR"\n[tools.coins_b]\npath_added = "off"', [1, 1, 1]),
    ],
)
def test_rules_give_levels_and_fail_on_the_exit_code(
    pair: tuple[Path, Path], tmp_path: Path, rules: str, exits: list[int]
) -> None:
    (tmp_path / "rules.toml").write_text(f"\ufeff{rules}")
    for level, code in zip(("ERR", "WARN", "INFO"), exits, strict=True):
        done = diff(*pair, "--rules", tmp_path / "rules.toml", "--fail-on", level)
        assert done.returncode == code, (level, done.stdout)
        assert (f"findings at level {level} or worse" in done.stderr) == bool(code)


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        (b'[levels]\nrestate = "off"', "levels: there is no check 'restate'; did you mean"),
        (b'[tools."a*"]\nordre = "off"', "tools.a*: there is no check 'ordre'; did you mean"),
        (
            b'[levels]\norder = "ERROR"',
            "levels.order can't be 'ERROR'; did you mean ERR?; it takes ERR, WARN, INFO, off",
        ),
        (b"[levels]\norder = []", "levels.order can't be '[]'; it takes ERR, WARN, INFO, off"),
        (b'leave_out = "coins"', "leave_out is no list of names; write it as"),
        (b'leaveout = ["a"]', "there is no rule 'leaveout'; did you mean leave_out?"),
        (b'levels = "off"', "levels is no table; write the heading [levels], and below it"),
        (b'[tools]\nx = "off"', "tools.x is no table; write the heading [tools.NAME], and"),
        (b"a = " + b"9" * 10_000, "is no TOML: "),
        (b"a = " + b"[" * 5_000, "is no TOML: "),
        (b"\xff\xfe", "is no TOML: "),
        (b'leave_out = ["*"]', "the rules leave out every tool, so there is nothing to compare"),
        (b"#" * (2**20 + 1), "over 1048576 bytes"),
    ],
)
def test_rules_that_cannot_be_used(
    pair: tuple[Path, Path], tmp_path: Path, rules: bytes, why: str
) -> None:
    path = tmp_path / "rules.toml"
    path.write_bytes(rules)
    done = diff(*pair, "--rules", path)
    assert (done.returncode, why in done.stderr) == (1, True)
    assert str(path) in done.stderr or why.startswith("the rules")


def test_names_in_rules_that_fit_no_tool_are_told(pair: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text('leave_out = ["c_?", "get_coins", "none_*"]\n[tools.coins_a]\norder = "off"')
    done = diff(*pair, "--rules", path)
    assert done.returncode == 0
    first, second = done.stderr.splitlines()
    assert first.startswith("finbench: the rules name 'get_coins', which fits no tool; did you")
    assert second == "finbench: the rules name 'none_*', which fits no tool"


def test_files_are_written_once_unless_forced(pair: tuple[Path, Path], tmp_path: Path) -> None:
    files = [tmp_path / "drift.md", tmp_path / "drift.html"]
    words = (*pair, "--markdown", files[0], "--html", files[1])
    assert diff(*words).returncode == 0
    written = [file.read_text() for file in files]
    again = diff(*words)
    assert again.returncode == 1
    assert f"{files[0]}: it exists already; --force replaces it" in again.stderr
    assert diff(*words, "--force").returncode == 0
    assert [file.read_text() for file in files] == written
    one = tmp_path / "one"
    for wrong in (["--html", pair[0]], ["--markdown", one, "--html", one]):
        done = diff(*pair, *wrong, "--force")
        assert done.returncode == 2
        assert "--markdown and --html name the same file, or a snapshot" in done.stderr
    assert diff(*pair).returncode == 0, "the snapshot is as it was"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Everything that an upstream can say, said by somebody who is up to something."""
    folder = tmp_path_factory.mktemp("hostile")
    long = "W" * 2**16
    words = [EVIL, "a", long]
    rows = [{"n": n, "word": words[n % 3], EVIL: n, long: 1} for n in range(60)]
    others = [{"n": n, "word": f"{words[n % 3]}!", "new|": n} for n in range(60)]
    day = "2026-01-{:02}".format
    before = [
        table(EVIL, rows),
        document("W" * 300, {EVIL: {"deep": 1}, "b": 1}),
        table("restated", [{"date": day(n), "x": EVIL + long} for n in range(1, 30)]),
        table("huge", [{"date": day(n), "x": (-1) ** n * 1.7e308} for n in range(1, 30)]),
        table("edge", [{"date": f"0001-{day(n)[5:]}T00:00+14:00", "x": n} for n in range(1, 30)]),
        table("ids", [{"id": str(n), "x": 1e200 * n} for n in range(1, 60)]),
        document("kinds", 1),
    ]
    after = [
        table(EVIL, others),
        document("W" * 300, {"b": 1}),
        table("restated", [{"date": day(n), "x": long + EVIL} for n in range(1, 30)]),
        table("huge", [{"date": day(n), "x": (-1) ** n * 1e299} for n in range(1, 30)]),
        table("edge", [{"date": f"0001-{day(n)[5:]}T00:00+14:00", "x": 9} for n in range(1, 30)]),
        table("ids", [{"id": str(n), "x": 1e-200 * n} for n in range(1, 60)]),
        document("kinds", EVIL),
    ]
    return snapshot(folder / "a", before), snapshot(folder / "b", after)


def test_long_and_hostile_texts_are_cut_and_shown_as_text(
    hostile: tuple[Path, Path], tmp_path: Path
) -> None:
    path = tmp_path / "drift.md"
    done = diff(*hostile, "--markdown", path, "--html", tmp_path / "drift.html", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["findings"]
    tools = {EVIL, "W" * 300, "restated", "edge", "ids", "kinds", "huge"}
    assert {f["tool"] for f in found} == tools
    assert len(done.stdout) < 50_000
    shown = diff(*hostile).stdout
    text = path.read_text()
    page = (tmp_path / "drift.html").read_text()
    for made in (shown, text, page):
        assert len(made) < 100_000
        assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", made)
        assert r"\u202e" in unescape(made).replace("\\\\", "\\")
    assert "<img" not in page
    lines = text.splitlines()
    assert not [
        line for line in lines if line and not line.startswith(("|", "### Drift", "7 calls"))
    ]
    for line in lines:
        assert not re.search(r"(?<!\\)[<>@\[\]]", line)
        bars = len(re.findall(r"(?<!\\)\|", line))
        assert bars in (0, 4, 5)


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A series: one tool of four ends with the second snapshot and one with the last; one is not
    asked in the third.
    """
    folder = tmp_path_factory.mktemp("series")
    paths = []
    for place in range(4):
        at = START + 10 * place * DAY_S
        rows = [document("stays", {"a": place}, at=at), document("unasked", {"a": 1}, at=at)]
        rows += [
            document(tool, {"a": 1}, at=at)
            if place < end
            else error(tool, ErrorCode.TIMEOUT, at=at)
            for tool, end in (("early", 1), ("late", 3))
        ]
        if place == 2:
            del rows[1]
        paths.append(snapshot(folder / f"{place}.snapshot", rows))
    return paths


def test_a_series_says_what_changed_from_each_to_the_next(four: list[Path]) -> None:
    made = content(*four)
    rows = made["series"]
    assert [row["days"] for row in rows] == [0, 10, 20, 30]
    assert [row["answered"] for row in rows] == [4, 3, 2, 2]
    found = [row["findings"] for row in rows]
    assert found == [None, *({"ERR": n, "WARN": 0, "INFO": 0} for n in (1, 0, 1))]
    assert told(made) == [("ERR", "availability", "early"), ("ERR", "availability", "late")]
    steps = made["survival"]["steps"]
    assert [(step["time"], step["survival"]) for step in steps] == [(10, 0.75), (30, 0.5)]
    shown = diff(*four).stdout
    assert "3.snapshot" in shown
    assert "nothing was found" not in shown
    assert content(*reversed(four)) == made  # taken in the order in which they were recorded
    assert "note: the snapshot before was recorded later" in diff(four[1], four[0]).stdout


def test_a_snapshot_twice_is_no_drift(pair: tuple[Path, Path], tmp_path: Path) -> None:
    words = ("--fail-on", "INFO", "--markdown", tmp_path / "a.md", "--html", tmp_path / "a.html")
    done = diff(pair[0], pair[0], *words)
    assert done.returncode == 0
    assert done.stdout.endswith("nothing was found\n")
    assert "Nothing was found." in (tmp_path / "a.md").read_text()
    assert "Nothing was found." in (tmp_path / "a.html").read_text()


def test_snapshots_that_cannot_be_compared(pair: tuple[Path, Path], tmp_path: Path) -> None:
    other = snapshot(tmp_path / "other", [document("coins_a", 1, probe="other")])
    done = diff(pair[0], other, "--html", tmp_path / "a.html")
    assert done.returncode == 1
    assert "no call is in both snapshots, so there is nothing to compare" in done.stderr
    assert not (tmp_path / "a.html").exists()
    data = pair[1].read_bytes()
    damaged = {
        "journal": JOURNAL + b"\n",
        "empty": b"",
        "cut": data[:-20],
        "row": data[:200] + bytes([data[200] ^ 1]) + data[201:],
        "index": data[:-100] + bytes([data[-100] ^ 1]) + data[-99:],
    }
    for name, content_of in damaged.items():
        (tmp_path / name).write_bytes(content_of)
        done = diff(pair[0], tmp_path / name)
        assert done.returncode == 1, name
        assert str(tmp_path / name) in done.stderr
    (tmp_path / "newer").write_bytes(b"finport-snapshot-2\n" + data[19:])
    told = f"{tmp_path / 'newer'}: a snapshot of format 2; this version reads format 1\n"
    assert diff(pair[0], tmp_path / "newer").stderr == f"Error: {told}"
    os.mkfifo(tmp_path / "pipe")
    assert "it is not a regular file" in diff(pair[0], tmp_path / "pipe").stderr
    for words in ((pair[0],), (), (pair[0], tmp_path / "none")):
        assert diff(*words).returncode == 2


def test_an_answer_that_is_read_in_part_is_said(sides: Sides) -> None:
    wide = {f"key_{n}": n for n in range(12_000)}
    before = [document("wide", wide), table("table", [wide] * 3)]
    after = [document("wide", {"new": 0, **wide}), table("table", [{"new": 0, **wide}] * 3)]
    paths = sides(before, after)
    made = content(*paths)
    assert made["findings"] == []
    assert made["calls"]["in_part"] == 2
    assert "compared in part: 2 answers" in " ".join(diff(*paths).stdout.split())


def test_columns_of_a_table_of_thousands_are_compared(sides: Sides) -> None:
    wide = {f"key_{n}": f"text {n}" for n in range(3_000)}
    rows: list[dict[str, Any]] = [{**wide, "price": 1.5 + n} for n in range(20)]
    others = [{"new": 0, **row, "price": row["price"] * 1e4} for row in rows]
    for row in others:
        del row["key_2999"]
    made = content(*sides([table("wide", rows)], [table("wide", others)]))
    found = [(finding["check"], finding["column"]) for finding in made["findings"]]
    assert sorted(found) == [
        ("column_added", "new"),
        ("column_removed", "key_2999"),
        ("unit_changed", "price"),
    ]
    assert made["calls"]["in_part"] == 0


def test_a_file_that_cannot_be_looked_at_is_named(pair: tuple[Path, Path]) -> None:
    name = "n" * 300
    done = diff(*pair, "--html", name)
    assert (done.returncode, done.stderr) == (1, f"Error: {name}: File name too long\n")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot of 9 MB, so that two are read by several processes."""
    luck = random.Random(1)
    rows = [document(f"tool_{n}", luck.randbytes(1_500_000).hex()) for n in range(6)]
    return snapshot(tmp_path_factory.mktemp("large") / "a", rows)


@pytest.fixture
def comparing(large: Path) -> Iterator[subprocess.Popen[str]]:
    """A comparison by several processes, which has begun."""
    if (os.cpu_count() or 1) == 1:
        pytest.skip("one processor has one process")
    command = [*FINBENCH, "drift", "diff", str(large), str(large)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        block_until(lambda: len(children(process.pid)) >= 3)  # one of them tracks resources
        yield process
    finally:
        process.kill()


INTERRUPTED = "finbench: interrupted; nothing was written\n"


@pytest.mark.parametrize(
    ("send", "how", "ended"),
    [
        (os.kill, signal.SIGINT, (130, INTERRUPTED)),
        (os.killpg, signal.SIGINT, (130, INTERRUPTED)),
        (os.kill, signal.SIGTERM, (143, INTERRUPTED)),
        (os.kill, signal.SIGKILL, None),
    ],
    ids=["ctrl-c", "ctrl-c on a terminal", "term", "kill"],
)
def test_no_process_of_a_large_comparison_outlives_it(
    comparing: subprocess.Popen[str],
    send: Callable[[int, int], None],
    how: int,
    ended: tuple[int, str] | None,
) -> None:
    started = children(comparing.pid)
    send(comparing.pid, how)
    _, said = comparing.communicate(timeout=PATIENCE_S)  # until nobody holds standard error
    assert ended in (None, (comparing.returncode, said))
    block_until(lambda: not any(map(is_running, started)))


def test_a_process_that_is_ended_from_outside_ends_the_comparison(
    comparing: subprocess.Popen[str],
) -> None:
    for child in children(comparing.pid):
        if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text():
            os.kill(child, signal.SIGKILL)
    _, said = comparing.communicate(timeout=PATIENCE_S)
    assert comparing.returncode == 1
    assert "a process that compared them was ended, perhaps for lack of memory" in said


@pytest.mark.anyio
async def test_pages_in_a_browser(
    hostile: tuple[Path, Path], four: list[Path], tmp_path: Path
) -> None:
    """In both colour schemes, as wide as a phone, with nothing asked for and no complaint."""
    skip_without_a_browser()
    pages = []
    for name, paths in (("hostile", hostile), ("series", four)):
        pages.append(tmp_path / f"{name}.html")
        assert diff(*paths, "--html", pages[-1]).returncode == 0
    said: list[str] = []
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        context = await chromium.new_context(viewport={"width": 360, "height": 740})
        context.set_default_timeout(PATIENCE_S * 1e3)
        tab = await context.new_page()
        tab.on("pageerror", lambda problem: said.append(str(problem)))
        tab.on("console", lambda message: said.append(message.text))
        tab.on("request", lambda request: said.append(request.url))
        for page in pages:
            await tab.goto(page.as_uri())
            assert await tab.title() == (
                "2026-06-30 09:00 to 2026-07-30 09:00 · Finport drift"
                if page is pages[1]
                else "2026-06-30 09:00 to 2026-06-30 09:00 · Finport drift"
            )
            assert await tab.locator("img").count() == 0
            assert await tab.evaluate("document.documentElement.scrollWidth") == 360
            await tab.evaluate(AXE.read_text(encoding="utf-8"))
            for scheme, rules in (("light", ""), ("dark", "runOnly: ['color-contrast']")):
                await tab.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
                wrong = await tab.evaluate(
                    f"axe.run({{ resultTypes: ['violations'], {rules} }}).then((found) =>"
                    " found.violations.map(({ id, nodes }) => [id, nodes.map((n) => n.html)]))"
                )
                assert wrong == [], (page.name, scheme)
            await tab.emulate_media(color_scheme="light")
        await chromium.close()
    assert said == [page.as_uri() for page in pages]
