"""`finbench compression`, as a user runs it."""

import json
import os
import signal
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from bench.compression.measure import METHODS
from tests.support.commands import FINBENCH, finbench


def test_the_command_measures_and_writes_figures(tmp_path: Path) -> None:
    done = finbench("compression", "--cases", "25", "--failures", "3", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    content = json.loads((tmp_path / "compression.json").read_text(encoding="utf-8"))
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
    assert "simulated" in done.stdout
    assert "undefined" not in done.stdout
    kinds = content["kept"]["finport"]["200"]["kinds"]
    missing = ", ".join(name for name, kind in kinds.items() if not kind["cases"])
    assert missing
    assert f"kinds without a case in the set: {missing}" in " ".join(done.stdout.split())
    assert "InvestorBench's files were not given" in " ".join(done.stdout.split())
    lost = sum(
        rate["all"]["cases"] - rate["all"]["kept"] for rate in content["kept"]["finport"].values()
    )
    assert done.stdout.count("question: ") == min(lost, 3)
    assert "measuring: " in done.stderr or "building: " in done.stderr
    picture = ElementTree.parse(tmp_path / "compression.svg").getroot()  # noqa: S314 - our own file
    assert "finport 200: " in picture.get("aria-label", "")
    assert "prefers-color-scheme: dark" in "".join(picture.itertext())


def test_the_part_held_apart_is_measured_without_its_failures() -> None:
    refused = finbench("compression", "--held-apart", "--failures", "3")
    assert refused.returncode == 2
    assert "not with --held-apart" in refused.stderr
    done = finbench("compression", "--held-apart", "--cases", "8", "--json")
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert (content["part"], content["cases"]) == ("held-apart", 8)


def test_an_interrupted_measurement_ends_in_order(tmp_path: Path) -> None:
    command = [*FINBENCH, "compression", "--out", str(tmp_path / "out")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stderr is not None
    try:
        assert "building: " in process.stderr.readline()
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert said.splitlines()[-1] == "finbench: interrupted; nothing is written"
    assert "Traceback" not in said
    assert not (tmp_path / "out").exists()
