"""Variables that nothing reads: refused by name, with the nearest, and never with their value."""

import json
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from bench.cli.main import main as finbench
from bench.environment import VARIABLES
from gateway import GatewaySettings
from gateway.cli.main import main as finport
from gateway.settings import SettingsError
from tests.support.gateways import PLANTED_KEY


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("FINPORT_RAPIDAPI_KEY", "; did you mean FINPORT_RAPIDAPI_KEYS?"),
        ("FINPORT_RAPID_API_KEYS", "; did you mean FINPORT_RAPIDAPI_KEYS?"),
        ("finport_cachedir", "; did you mean FINPORT_CACHE_DIR?"),
        ("finport_config", "; did you mean FINPORT_CONFIG?"),
        ("FINPORT_DEADLINE", "; did you mean FINPORT_DEADLINE_S?"),
        ("FINPORT_ZZZ", ""),
        ("FINPORT_", ""),
        ("FINPORT_PORT", ""),
    ],
)
def test_a_variable_that_is_no_setting_is_refused_with_the_nearest(
    name: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, PLANTED_KEY)
    with pytest.raises(SettingsError) as caught:
        GatewaySettings.read()
    assert str(caught.value) == f"{name} is no setting{told}"
    with pytest.raises(SettingsError):
        GatewaySettings()
    done = CliRunner().invoke(finport, ["call", "get_coin", "uuid=x", "--upstream", "simulated"])
    assert (done.exit_code, PLANTED_KEY in done.output) == (2, False)
    assert f"{name} is no setting{told}" in done.output


@pytest.mark.parametrize("case", [str.upper, str.lower, str.title])
def test_every_setting_may_be_written_in_any_case(
    case: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(case("FINPORT_MAX_ROWS"), "7")
    assert GatewaySettings.read().max_rows == 7


def test_every_setting_is_described_and_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FINPORT_CONFIG", "nowhere.toml")
    for name, field in GatewaySettings.model_fields.items():
        assert field.description, name
        monkeypatch.setenv(f"FINPORT_{name.upper()}", json.dumps(field.default, default=str))
    with pytest.raises(SettingsError, match="nowhere"):
        GatewaySettings.read()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FINPORT_SERVICE_HOST", "10.0.0.1"),
        ("FINPORT_SERVICE_PORT", "8000"),
        ("FINPORT_SERVICE_PORT_HTTP", "8000"),
        ("FINPORT_PORT", "tcp://10.0.0.1:8000"),
        ("FINPORT_PORT_8000_TCP", "tcp://10.0.0.1:8000"),
        ("FINPORT_PORT_8000_TCP_ADDR", "10.0.0.1"),
        ("FINPORT_METRICS_SERVICE_HOST", "10.0.0.2"),
        ("FINPORT_METRICS_PORT", "tcp://10.0.0.2:9000"),
    ],
)
def test_what_kubernetes_says_of_a_service_of_that_name_passes(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert GatewaySettings.read().mode == "live"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("FINBENCH_MODEL_KEYS", "; did you mean FINBENCH_MODEL_KEY?"),
        ("finbench_judge_key", "; did you mean FINBENCH_JUDGE_KEY?"),
        ("FINBENCH_OPENAI_TOKEN", ""),
    ],
)
def test_the_bench_refuses_what_it_does_not_read(
    name: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, PLANTED_KEY)
    done = CliRunner().invoke(finbench, ["run", "starter", "--plan"])
    assert (done.exit_code, PLANTED_KEY in done.output) == (2, False)
    assert f"{name} is no setting{told}\n" in done.output
    assert CliRunner().invoke(finbench, ["--help"]).exit_code == 0


def test_a_command_checks_only_the_variables_of_settings_that_it_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def exit_code(command: click.Command, *arguments: str) -> int:
        return CliRunner().invoke(command, arguments).exit_code

    embeddings = ("retrieval", "--embedding-url", "http://127.0.0.1:1", "--embedding-model", "m")
    with monkeypatch.context() as patch:
        patch.setenv("FINPORT_EMBEDDINGS_KEYS", "x")
        assert exit_code(finbench, *embeddings) == 2
        assert exit_code(finbench, "run", "starter", "--plan") == 2
        assert exit_code(finbench, "score", "missing.jsonl", "--help") == 0
    monkeypatch.setenv("FINBENCH_MODEL_KEYS", "x")
    assert exit_code(finport, "quota", "--upstream", "simulated") == 0


def test_the_bench_reads_what_it_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "x")
    done = CliRunner().invoke(finbench, ["run", "nothing", "--plan"])
    assert "no suite is named" in done.output


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('rapidapi_key = ["planted"]', "settings: rapidapi_key is no setting; did you mean"),
        ("zzz = 1", "settings: zzz is no setting"),
        (
            '[hosts."eastmoney.com"]\nper_secnd = 2',
            "settings: hosts.eastmoney.com.per_secnd is no setting; did you mean per_second?",
        ),
    ],
)
def test_a_file_with_what_is_no_setting_is_refused_with_the_nearest(line: str, told: str) -> None:
    Path("finport.toml").write_text(line)
    with pytest.raises(SettingsError) as caught:
        GatewaySettings.read()
    assert str(caught.value).startswith(told)
    assert "planted" not in str(caught.value)
