"""The command that is told of changes, also one that fails or hangs."""

import json
from pathlib import Path

import pytest

from gateway import GatewaySettings
from gateway.settings import SettingsError
from gateway.shapes import notices
from manifests import Catalog
from tests.support.processes import is_running
from tests.support.shapes import Compared, open_compared
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.anyio

SECRET = "planted-secret-0451"  # noqa: S105 - no real one


async def change(compared: Compared, times: int = 1) -> None:
    """So many changes."""
    await compared.answer({"a": 1})
    for n in range(times):
        await compared.answer({"a": 1, f"b{n}x": True})


async def test_changes_that_wait_are_bounded_and_end_with_the_gateway(
    catalog: Catalog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(notices, "QUEUED", 3)
    monkeypatch.setattr(notices, "CLOSE_S", 0.1)
    monkeypatch.setattr(notices, "LOGGED_S", 0.0)
    command = ("sh", "-c", 'echo >> "$0"; exec sleep 1000', str(tmp_path / "told"))
    async with open_compared(catalog, tmp_path, shape_command=command) as compared:
        await change(compared)
        await until((tmp_path / "told").exists)
        await compared.answer({f"c{n}x": 1 for n in range(5)} | {"a": 1})
        outcomes = compared.watch.notices.outcomes
        assert outcomes == {"left_out": 2}
    assert outcomes == {"left_out": 5, "failed": 1}
    assert "missed changes (1): 3 changes wait already" in caplog.text
    assert "the gateway has closed" in caplog.text
    assert (tmp_path / "told").read_text() == "\n"


async def test_a_command_gets_each_change_and_no_secret(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FINPORT_API_KEYS", SECRET)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    command = ("sh", "-c", 'cat >> "$0"; env >> "$0.env"', str(tmp_path / "out;x"))
    async with open_compared(catalog, tmp_path, shape_command=command) as compared:
        await change(compared, times=2)
        await until(lambda: compared.watch.notices.outcomes == {"sent": 2})
    told = [json.loads(line) for line in (tmp_path / "out;x").read_text().splitlines()]
    assert told[0].pop("time")[10] == "T"
    assert told[0] == {
        "tool": "get_coin",
        "kind": "path_added",
        "path": "b0x",
        "before": [],
        "after": ["boolean"],
        "upstream": "live",
        "variant": {},
    }
    assert [each["path"] for each in told] == ["b0x", "b1x"]
    assert "PATH=" in (tmp_path / "out;x.env").read_text()
    assert SECRET not in (tmp_path / "out;x.env").read_text()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("sh -c 'exit 3'", "it ended with 3"),
        ("false", "it ended with 1"),
        ("/no/such/program --key planted", "it could not be started: No such file"),
        ("/", "it could not be started: Permission denied"),
    ],
)
async def test_a_command_that_fails_is_told(
    words: str, why: str, catalog: Catalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_compared(catalog, tmp_path, shape_command=words) as compared:
        await change(compared)
        await until(lambda: compared.watch.notices.outcomes["failed"])
    assert why in caplog.text
    assert "planted" not in caplog.text


@pytest.mark.parametrize("at_the_end", [False, True])
async def test_a_command_that_hangs_is_killed_with_its_children(
    at_the_end: bool,
    catalog: Catalog,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(notices, "COMMAND_S", PATIENCE_S if at_the_end else 0.3)
    monkeypatch.setattr(notices, "CLOSE_S", 0.1)
    pids = tmp_path / "pids"
    command = ("sh", "-c", 'trap "" TERM; sleep 1000 & echo $$ $! >> "$0"; wait', str(pids))
    async with open_compared(catalog, tmp_path, shape_command=command) as compared:
        await change(compared)
        await until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
        if not at_the_end:
            await until(lambda: compared.watch.notices.outcomes["failed"])
    assert compared.watch.notices.outcomes == {"failed": 1}
    why = "the gateway has closed" if at_the_end else "it did not end within 0.3 s"
    assert why in caplog.text
    for pid in map(int, pids.read_text().split()):
        await until(lambda pid=pid: not is_running(pid))  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("shape_command", f"echo '{SECRET}"),
        ("shape_command", "''"),
        ("shape_share", "1.5"),
        ("shape_share", "-1"),
    ],
)
def test_what_cannot_be_told_is_refused_without_its_value(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"FINPORT_{name.upper()}", value)
    with pytest.raises(SettingsError, match=f"setting {name}: ") as caught:
        GatewaySettings.read()
    assert SECRET not in str(caught.value)


def test_the_settings_are_read_from_variables_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FINPORT_SHAPE_COMMAND", "mail -s 'a b' me")
    settings = GatewaySettings.read()
    assert settings.shape_command == ("mail", "-s", "a b", "me")
    monkeypatch.delenv("FINPORT_SHAPE_COMMAND")
    (tmp_path / "own.toml").write_text('shape_command = ["mail", "a b"]\n')
    monkeypatch.setenv("FINPORT_CONFIG", "own.toml")
    assert GatewaySettings.read().shape_command == ("mail", "a b")
