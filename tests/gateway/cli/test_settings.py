"""`finport settings`: all settings with their sources, and the files that are made of them."""

import os
import re
import tomllib
from pathlib import Path

import orjson
import pytest

from gateway.settings import GatewaySettings, mcp_provider
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


def test_no_secret_in_a_url_or_a_command_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "finport.toml"
    file.write_text(
        """
        catalog = "none"
        akshare_base_url = "http://me:very-secret@127.0.0.1:9/proxy"
        mcp = ["http://127.0.0.1:9/mcp?apikey=very-secret", "desk-server --key very-secret"]
        openapi = ["http://me:very-secret@127.0.0.1:9/api.json?key=very-secret#very-secret"]
        [providers.one]
        mcp = "http://127.0.0.1:9/mcp?apikey=very-secret"
        [providers.two]
        command = ["desk-server", "--key=very-secret"]
        [providers.three]
        openapi = "http://127.0.0.1:9/api.json?apikey=very-secret"
        """
    )
    monkeypatch.setenv("FINPORT_CONFIG", str(file))
    monkeypatch.setenv("FINPORT_CACHE_DIR", str(tmp_path / "cache"))
    shown = finport("settings", "--json")
    rows = {row["setting"]: row["value"] for row in orjson.loads(shown.stdout)}
    assert rows["akshare_base_url"] == "http://127.0.0.1:9/proxy"
    assert orjson.loads(rows["mcp"]) == ["http://127.0.0.1:9/mcp", "desk-server ***"]
    assert orjson.loads(rows["openapi"]) == ["http://127.0.0.1:9/api.json"]
    assert orjson.loads(rows["providers"]) == {
        "one": {"mcp": "http://127.0.0.1:9/mcp"},
        "two": {"command": ["desk-server", "***"]},
        "three": {"openapi": "http://127.0.0.1:9/api.json"},
    }
    unreadable = finport("doctor", "--json")
    assert "provider three: http://127.0.0.1:9/api.json: it can't be fetched" in unreadable.stdout
    file.write_text(
        f"""
        catalog = "none"
        mcp = ["http://127.0.0.1:9/mcp?apikey=very-secret", "{tmp_path}/desk --key very-secret"]
        """
    )
    looked = finport("doctor", "--json")
    assert "0 tools of http://127.0.0.1:9/mcp" in looked.stdout
    assert "provider desk" in looked.stdout
    for done in (shown, unreadable, looked):
        assert "very-secret" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("origin", "name", "field"),
    [
        ("https://notes.example/mcp?key=x", "notes-example", "mcp"),
        ("python -P notes_server.py --key x", "notes_server", "command"),
        ("/opt/bin/desk-server --key x", "desk-server", "command"),
        ("npx -y mcp-remote https://notes.example/mcp", "mcp-remote", "command"),
        ("uvx mcp-server-time --local-timezone UTC", "mcp-server-time", "command"),
        ("python", "python", "command"),
    ],
)
def test_a_server_is_named_by_its_host_or_program(origin: str, name: str, field: str) -> None:
    found = GatewaySettings(mcp=(origin,), cache_dir=Path("unused")).own_providers()
    assert [*found] == [name]
    assert getattr(found[name], field) is not None
    assert mcp_provider(origin) == (name, found[name])
