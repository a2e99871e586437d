"""`finport settings`: all settings with their sources, and the files that are made of them."""

import os
import re
import tomllib
from pathlib import Path

import orjson
import pytest

from gateway.settings import GatewaySettings
from tests.support.checkout import ROOT
from tests.support.commands import finport, finport_process


@pytest.fixture(autouse=True)
def plain_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("XDG_", "FINPORT_"))]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("option", "file"), [("--toml", "finport.example.toml"), ("--markdown", "docs/settings.md")]
)
def test_the_files_are_as_the_command_writes_them(option: str, file: str) -> None:
    written = finport_process("settings", option).stdout
    assert (ROOT / file).read_text() == written, f"finport settings {option} > {file}"


def test_the_example_is_a_settings_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (ROOT / "finport.example.toml").read_text().splitlines()
    given = [line[2:] for line in lines if re.match(r"# [a-z_]+ = (?!\"\"|\{\}|\[\])", line)]
    (tmp_path / "finport.toml").write_text("\n".join(given))
    assert len(tomllib.loads("\n".join(given))) > 30
    monkeypatch.setenv("FINPORT_CONFIG", str(tmp_path / "finport.toml"))
    read, plain = GatewaySettings.read(), GatewaySettings()
    assert read.model_dump().keys() == GatewaySettings.model_fields.keys()
    assert read.deadline_s == plain.deadline_s


def test_sources_are_told_and_secrets_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "finport.toml").write_text("retries = 5\n")
    monkeypatch.setenv("FINPORT_CONFIG", str(tmp_path / "finport.toml"))
    monkeypatch.setenv("FINPORT_RAPIDAPI_KEYS", "very-secret,other-secret")
    monkeypatch.setenv("FINPORT_CREDENTIALS", '{"a.example": "third-secret"}')
    done = finport("settings", "--json")
    assert "secret" not in done.stdout.replace("secrets", "")
    rows = {row["setting"]: row for row in orjson.loads(done.stdout)}
    assert rows.keys() == GatewaySettings.model_fields.keys()
    assert (rows["retries"]["value"], rows["retries"]["from"]) == ("5", "file")
    assert rows["rapidapi_keys"]["from"] == "FINPORT_RAPIDAPI_KEYS"
    assert rows["rapidapi_keys"]["value"] == '["***","***"]'
    assert rows["credentials"]["value"] == '{"a.example":"***"}'
    assert rows["deadline_s"]["from"] == "default"
    assert "retries" in finport("settings").stdout
