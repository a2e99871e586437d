"""What becomes of a notification at hostile commands and servers."""

import json
import shlex
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.drift.notify import MOST, Notifier, NotifyError, notification
from tests.support.processes import is_running
from tests.support.servers import json_server
from tests.support.waiting import block_until

PLANTED = "planted-0451"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.drift.notify.DEADLINE_S", 1.0)


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that takes a connection and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/{PLANTED}"


def python(code: str) -> str:
    return shlex.join([sys.executable, "-c", code])


def failure(target: str, told: object = None) -> str:
    with pytest.raises(NotifyError) as caught:
        Notifier.parse(target).send({"text": told})
    assert PLANTED not in str(caught.value)
    return str(caught.value)


def content(*levels: str) -> dict[str, Any]:
    findings = [
        {"level": level, "check": "empty", "id": str(n), "tool": f"t{n}"}
        for n, level in enumerate(levels)
    ]
    counts = [{"level": level, "check": "empty", "findings": 1} for level in levels]
    sides = {"before": {"file": "a"}, "after": {"file": "b"}}
    return {**sides, "findings": findings, "counts": counts, "calls": {}}


def test_a_notification_has_what_reaches_the_level_the_worst_first() -> None:
    told = notification(content("INFO", "WARN", "ERR"), "WARN", ["z"])
    assert told is not None
    assert [found["level"] for found in told["findings"]] == ["ERR", "WARN"]
    assert told["text"] == "a to b: WARN empty 1, ERR empty 1 (t2, t1)"
    assert (told["left_out"], told["undelivered"]) == (0, ["z"])
    assert notification(content("INFO", "WARN"), "ERR", []) is None
    told = notification(content(*["WARN"] * 10_000), "INFO", [])
    assert told is not None
    assert (len(told["findings"]), told["left_out"]) == (MOST, 10_000 - MOST)


def test_a_server_that_does_not_answer_is_given_up(silent: str) -> None:
    assert "no answer within 1 s" in failure(silent)


@pytest.mark.parametrize(("status", "said"), [(500, "status 500"), (302, "is not followed")])
def test_a_server_that_refuses_is_told(status: int, said: str) -> None:
    with json_server(lambda _: (status, {})) as url:
        assert said in failure(f"{url}/{PLANTED}?key={PLANTED}")


def test_a_host_that_is_not_there_is_told() -> None:
    assert "127.0.0.1:1: no answer" in failure(f"http://127.0.0.1:1/{PLANTED}")


def test_a_command_that_does_not_end_is_killed_with_its_children(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    code = (
        "import os, subprocess, time;"
        "child = subprocess.Popen(['sleep', '600']);"
        f"open({str(file)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}');"
        "time.sleep(600)"
    )
    assert "had not ended after 1 s and was killed" in failure(python(code))
    pids = file.read_text().split()
    assert len(pids) == 2
    block_until(lambda: not any(map(is_running, pids)))


def test_a_command_that_fills_its_output_is_ended_and_little_of_it_is_shown() -> None:
    said = failure("sh -c 'yes out & yes >&2'")
    assert len(said) < 400


def test_a_command_that_reads_nothing_is_told_all_the_same() -> None:
    Notifier.parse("true").send({"text": "x" * 2**22})


def test_a_command_that_fails_is_told_with_its_last_words() -> None:
    said = failure(python("import sys; sys.exit('a' * 1000 + '\\x1b[2J no mail')") + f" {PLANTED}")
    assert "exit code 1" in said
    assert said.endswith("no mail")
    assert "\x1b" not in said


def test_a_command_gets_no_secret_and_its_words_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FINPORT_RAPIDAPI_KEYS", PLANTED)
    file = tmp_path / "got"
    code = (
        "import json, os, sys;"
        "got = [dict(os.environ), sys.argv, json.load(sys.stdin)];"
        f"json.dump(got, open({str(file)!r}, 'w'))"
    )
    Notifier.parse(f"{python(code)} '$HOME; true'").send({"text": "t"})
    environment, words, told = json.loads(file.read_text())
    assert PLANTED not in environment.values()
    assert (words[1:], told) == (["$HOME; true"], {"text": "t"})


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("", "is empty"),
        ("'open", "can't be read"),
        ("no-such-program --x", "no-such-program is no program"),
        (f"https://user:{PLANTED}@hooks.example/", "holds a user"),
        (f"ftp://hooks.example/{PLANTED}", "is not one of http:// or https://"),
        (f"https:///{PLANTED}", "with a host"),
        (f"https://h:99999/{PLANTED}", "can't be read"),
    ],
)
def test_what_can_not_be_told_is_said_at_once(target: str, said: str) -> None:
    assert said in failure(target)
