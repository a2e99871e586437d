"""The file of settings: which one is read, what a found one may say, and what is none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway import GatewaySettings
from gateway.cli.main import main as finport
from gateway.settings import SettingsError
from gateway.settings_file import MAX_BYTES, OPERATORS_ONLY
from tests.support.commands import served

HOSTILE = {
    "rapidapi_base_url": '"http://127.0.0.1:9"',
    "akshare_base_url": '"http://127.0.0.1:9"',
    "embeddings_url": '"http://127.0.0.1:9"',
    "extractor_url": '"http://127.0.0.1:9"',
    "api_keys": '["planted-client-key"]',
    "metrics_key": '"planted-metrics-key"',
    "clients_file": '"theirs.json"',
    "allow_transactional": "true",
    "allowed_hosts": '["evil.example"]',
    "allowed_origins": '["http://evil.example"]',
    "redis_url": '"redis://evil.example:6379"',
    "providers": '{ theirs = { python = "theirs.py" } }',
    "tools": '["theirs.py"]',
    "manifests": '["theirs"]',
    "openapi": '["http://evil.example/openapi.json"]',
    "mcp": '["http://evil.example/mcp"]',
}


def write(text: str, name: str = "finport.toml") -> None:
    Path(name).write_text(text, encoding="utf-8")


def test_every_setting_that_is_the_operators_alone_is_tried_here() -> None:
    assert HOSTILE.keys() == OPERATORS_ONLY
    assert GatewaySettings.model_fields.keys() >= OPERATORS_ONLY


@pytest.mark.parametrize("setting", sorted(HOSTILE))
def test_a_found_file_does_not_say_where_secrets_go_or_who_may_use_them(
    setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(f"FINPORT_{setting.upper()}", raising=False)
    for name in (setting, setting.upper()):
        write(f"{name} = {HOSTILE[setting]}\n")
        with pytest.raises(SettingsError, match=f"setting {setting}: .*finport.toml") as caught:
            GatewaySettings.read()
        assert "FINPORT_CONFIG=finport.toml" in str(caught.value)
        assert "planted" not in str(caught.value)
    write(f"{setting} = {HOSTILE[setting]}\n")
    monkeypatch.setenv("FINPORT_CONFIG", "finport.toml")
    assert getattr(GatewaySettings.read(), setting) != GatewaySettings.model_fields[setting].default


def test_every_command_that_reads_settings_refuses_such_a_file() -> None:
    write(f"rapidapi_base_url = {HOSTILE['rapidapi_base_url']}\n")
    for command in (["call", "get_coin", "uuid=x"], ["serve"], ["quota"], ["keys", "list"]):
        done = CliRunner().invoke(finport, command)
        assert done.exit_code == 2, command
        assert "setting rapidapi_base_url" in done.output


def test_the_file_that_is_named_is_read_in_place_of_the_one_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("max_rows = 1\n")
    assert GatewaySettings.read().max_rows == 1
    monkeypatch.setenv("FINPORT_CONFIG", str(tmp_path / "mine.toml"))
    with pytest.raises(SettingsError, match=r"mine\.toml: No such file"):
        GatewaySettings.read()
    write("\ufeffmax_rows = 2\n", "mine.toml")  # with a byte order mark, as Windows writes it
    assert GatewaySettings.read().max_rows == 2
    monkeypatch.setenv("FINPORT_CONFIG", "")
    assert GatewaySettings.read().max_rows == 1
    doctor = CliRunner().invoke(finport, ["doctor", "--upstream", "simulated", "--json"])
    assert str(tmp_path / "finport.toml") in doctor.output


def test_the_gateway_says_at_its_start_which_file_it_has_read(tmp_path: Path) -> None:
    write("max_rows = 7\n")
    with served(tmp_path / "cache") as (process, _):
        process.terminate()
        _, stderr = process.communicate(timeout=10)
    assert process.returncode == 0
    assert f"settings are from {tmp_path / 'finport.toml'}" in stderr


NO_SETTINGS = {
    "nested arrays": "hosts = " + "[" * 100_000,
    "nested tables": "hosts = " + "{a=" * 100_000,
    "dotted names": ".".join("a" * 2_000) + " = 1",
    "a long number": f"retries = {'9' * 5_000}",
    "a number over 64 bits": f"retries = {'9' * 400}",
    "a number over 53 bits": "max_connections = 9223372036854775807",
    "NUL": "upstream = 'a\0b'",
    "NUL in a path": 'cache_dir = "a\\u0000b"',
    "another type": "hosts = 3",
    "a table for a number": "retries = {a = 1}",
    "a list for a table": "credentials = ['planted']",
    "a date": "max_rows = 1979-05-27",
    "infinity": "deadline_s = inf",
    "a share over 1": "simulated_hang_rate = 1.5",
    "a key with a line's end": 'rapidapi_keys = ["planted\\nkey"]',
    "a number for a secret": "credentials = {planted = 1}",
    "no number": "deadline_s = nan",
    "an unknown name": '"\\u001b[2Jx" = 1',
    "too much": "# " + "x" * MAX_BYTES,
    "a port that is none": "akshare_base_url = 'http://h:99999'",
    "a break in a URL": 'akshare_base_url = "http://h\\n"',
}


@pytest.mark.parametrize("what", NO_SETTINGS)
def test_what_is_no_file_of_settings_is_told(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write(NO_SETTINGS[what])
    monkeypatch.setenv("FINPORT_CONFIG", "finport.toml")
    with pytest.raises(SettingsError, match="setting") as caught:
        GatewaySettings.read()
    assert "planted" not in str(caught.value)
    done = CliRunner().invoke(finport, ["call", "get_coin", "uuid=x"])
    assert (done.exit_code, "\x1b" in done.output) == (2, False), done.output


def test_a_file_in_another_encoding_a_folder_and_a_pipe_are_told() -> None:
    Path("finport.toml").write_bytes("a = 'é'".encode("latin-1"))
    with pytest.raises(SettingsError, match="not UTF-8"):
        GatewaySettings.read()
    Path("finport.toml").unlink()
    Path("finport.toml").mkdir()
    with pytest.raises(SettingsError, match="not a regular file"):
        GatewaySettings.read()
    Path("finport.toml").rmdir()
    os.mkfifo("finport.toml")
    with pytest.raises(SettingsError, match="not a regular file"):
        GatewaySettings.read()
    Path("finport.toml").unlink()
    Path("finport.toml").symlink_to("nowhere")
    with pytest.raises(SettingsError, match="No such file"):
        GatewaySettings.read()


def test_a_huge_file_is_not_read_into_memory() -> None:
    with Path("finport.toml").open("wb") as file:
        file.truncate(2**34)
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_DATA, (2**28, 2**28))\n"
        "from gateway.settings import *\n"
        "try: GatewaySettings.read()\nexcept SettingsError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"it is over {MAX_BYTES} bytes" in done.stdout
