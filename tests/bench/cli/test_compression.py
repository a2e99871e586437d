"""`finbench compression`, as a user runs it."""

import json
import os
import signal
import subprocess

from click.testing import CliRunner

from bench.cli.main import main
from bench.compression.measure import METHODS
from tests.support.commands import FINBENCH, finbench


def test_the_command_measures_and_prints_figures() -> None:
    done = finbench("compression", "--cases", "25", "--failures", "3", "--json")
    assert done.returncode == 0, done.stderr
    content, end = json.JSONDecoder().raw_decode(done.stdout)
    assert (content["cases"], content["assets"], content["seed"]) == (25, 0, 0)
    assert content["part"] == "development"
    assert tuple(content["kept"]) == METHODS
    for rates in content["kept"].values():
        assert list(rates) == ["200", "500", "1000", "4000"]
        for rate in rates.values():
            low, high = rate["all"]["interval"]
            assert low <= rate["all"]["share"] <= high
            assert sum(kind["cases"] for kind in rate["kinds"].values()) == 25
    assert content["over_budget"] == 0
    assert "InvestorBench's files were not given" in content["provenance"][-1]
    lost = sum(
        rate["all"]["cases"] - rate["all"]["kept"] for rate in content["kept"]["finport"].values()
    )
    assert done.stdout[end:].count("question: ") == min(lost, 3)
    assert "building: " in done.stderr


def test_the_part_held_apart_is_measured_without_its_failures() -> None:
    refused = CliRunner().invoke(main, ["compression", "--held-apart", "--failures", "3"])
    assert refused.exit_code == 2
    assert "not with --held-apart" in refused.stderr
    done = finbench("compression", "--held-apart", "--cases", "8")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("held-apart part, seed 0: 8 cases")
    assert all(method in done.stdout for method in METHODS)
    assert "undefined" not in done.stdout


def test_an_interrupted_measurement_ends_in_order() -> None:
    command = [*FINBENCH, "compression"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stderr is not None
    try:
        assert "building: " in process.stderr.readline()
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert said.splitlines()[-1] == "finbench: interrupted"
    assert "Traceback" not in said
