"""Money of runs: by a file of prices, after a run, in `score`, `report` and `table`; or unknown."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from bench.models.prices import Price, Prices, PricesError, amount_text
from tests.support.commands import finbench
from tests.support.played_model import completion
from tests.support.servers import json_server

TOML = """
currency = "EUR"
[models.m]
input = 2
cached_input = 0.5
output = 10
[models."org/j-2"]
input = 1.0
output = 1.0
"""


def model(name: str, *, tokens: tuple[int, int, int] = (1_000, 100, 400), judge: str = "") -> Any:
    """An endpoint that answers as `name`."""
    said = json.loads(completion("no", model=name, tokens=tokens))
    judged = json.loads(completion('{"score": 1}', model=judge, tokens=(50, 5, 0)))

    def answer(request: Any) -> tuple[int, object]:
        return 200, judged if request.path.startswith("/judge") else said

    return json_server(answer)


def run(url: str, out: str, *options: str, name: str = "m") -> Any:
    asked = ("--agent", "llm", "--model", name, "--base-url", f"{url}/v1", "--judge", "llm")
    judge = ("--judge-model", "j", "--judge-base-url", f"{url}/judge/v1")
    how = ("--upstream", "simulated", "--episodes", "4", "--top-k", "0", "--out", out)
    task = {"id": "a", "category": "crypto", "question": "What?", "tools": [], "answer": "12 USD"}
    Path("tasks.jsonl").write_text(json.dumps(task))
    return finbench("run", "own", "--dataset", "tasks.jsonl", *asked, *judge, *how, *options)


def test_a_run_tells_the_money_and_keeps_its_prices() -> None:
    Path("prices.toml").write_text(TOML)
    with model("m-2026-01", judge="org/j-2") as url:
        done = run(url, "a", "--prices", "prices.toml")
        assert done.returncode == 0, done.stderr
        told = json.loads(run(url, "b", "--prices", "prices.toml", "--json").stdout)
    each = (600 * 2 + 400 * 0.5 + 100 * 10) / 1e6
    assert told["money"]["agent"] == pytest.approx(4 * each)
    asked = told["usage"]["judge"]["model_calls"]["calls"]
    assert told["money"]["judge"] == pytest.approx(asked * 55 / 1e6)
    assert f"{4 * each:.3g} EUR" in done.stdout
    assert "4000 tokens in (1600 of them cached), 400 out; " in done.stdout
    assert told["models"]["agent"] == [
        {
            "model": "m",
            "answered_by": "m-2026-01",
            "calls": 4,
            "uncounted": 0,
            "tokens": {"input": 4000, "cached": 1600, "output": 400},
        }
    ]
    assert json.loads(Path("a/run.json").read_text())["prices"]["currency"] == "EUR"
    assert f"{4 * each:.3g} EUR" in finbench("score", "a").stdout
    assert finbench("report", "a").returncode == 0
    assert f"{4 * each:.3g} EUR" in Path("a/report.html").read_text()
    (row, _) = csv.DictReader(io.StringIO(finbench("table", "a", "b", "--format", "csv").stdout))
    assert float(row["tokens"]) == 1_100
    assert float(row["EUR"]) == pytest.approx(each)
    Path("other.json").write_text(
        '{"currency": "USD", "models": {"m": {"input": 0, "output": 1e3}}}'
    )
    shown = finbench("table", "a", "b", "--format", "csv", "--prices", "other.json").stdout
    assert next(csv.DictReader(io.StringIO(shown)))["USD"] == "0.1"


def test_prices_stay_with_a_run_that_goes_on_without_them() -> None:
    Path("prices.toml").write_text(TOML)
    with model("m") as url:
        assert run(url, "a", "--prices", "prices.toml").returncode == 0
        again = run(url, "a", "--resume", "--episodes", "6")
    assert "EUR" in again.stdout, again.stderr


@pytest.mark.parametrize(
    ("name", "tokens", "why"),
    [
        ("other", (10, 1, 0), "no price of other"),
        ("m", (0, 0, 0), "the endpoint counted no tokens of 4 of 4 requests to m"),
    ],
)
def test_money_that_is_not_known_is_not_0(
    name: str, tokens: tuple[int, int, int], why: str
) -> None:
    Path("prices.toml").write_text(TOML)
    with model("what", tokens=tokens, judge="org/j-2") as url:
        done = run(url, "a", "--prices", "prices.toml", name=name)
        told = json.loads(run(url, "b", "--prices", "prices.toml", "--json", name=name).stdout)
    assert f"money unknown: {why}" in done.stdout
    assert told["money"]["agent"] is None
    assert "EUR" not in finbench("table", "a", "b", "--format", "csv").stdout


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("currency = 'EUR'", "models: Field required"),
        ("currency = 'EUR'\n[models.m]\ninput = 1", "models.m.output: Field required"),
        ("currency = 'EUR'\n[models.m]\ninput = -1\noutput = 1", "models.m.input: Input should"),
        ("currency = 'EUR'\n[models.m]\ninput = nan\noutput = 1", "models.m.input: Input should"),
        ("currency = 'EUR'\n[models.m]\ninput = 1\noutput = 1\nout = 2", "models.m.out: Extra"),
        ("currency = '\\u001b[31m'\n[models.m]\ninput = 1\noutput = 1", "currency: String should"),
        ("currency = ", "it can't be read"),
        ("a" * 2**17, "it is over 65536 bytes"),
        (None, "No such file"),
    ],
)
def test_a_file_that_holds_no_prices_is_a_usage_error(text: str | None, why: str) -> None:
    if text is not None:
        Path("p.toml").write_text(text)
    done = finbench("run", "starter", "--prices", "p.toml", "--out", "out")
    assert (done.returncode, why in done.stderr.replace("\n", " ")) == (2, True), done.stderr
    assert not Path("out").exists()


def test_a_price_is_that_of_the_name_asked_for_first() -> None:
    a, b = Price(input=1.0, output=2.0), Price(input=3.0, output=4.0, cached_input=5.0)
    prices = Prices(currency="USD", models={"a": a, "b": b})
    assert prices.of_model("a", "b") is a
    assert prices.of_model("alias", "b") is b
    assert prices.of_model("A", None) is None
    assert b.most(1_000_000, 1_000_000) == 9.0
    with pytest.raises(PricesError, match="it is not a regular file"):
        Prices.read(Path("/dev/null"))
    shown = [amount_text(x) for x in (0.0, 0.000012345, 0.0012345, 1234.5)]
    assert shown == ["0.00", "0.0000123", "0.00123", "1,234.50"]
