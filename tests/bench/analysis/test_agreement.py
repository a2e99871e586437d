"""`finbench agreement`: people and judges who scored the same episodes."""

import json
from pathlib import Path

import pytest

from bench.analysis.agreement import cohens_kappa, krippendorffs_alpha, weighted_kappa
from bench.record import Judgement
from tests.support.commands import finbench
from tests.support.records import episode, made
from tests.support.runs import write_run

_: float | None = None
OBSERVERS = (
    (1, 2, 3, 3, 2, 1, 4, 1, 2, _, _, _),
    (1, 2, 3, 3, 2, 2, 4, 1, 2, 5, _, 3),
    (_, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, _),
    (1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, _),
)
"""The worked example of Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011."""


def test_alpha_is_that_of_the_published_example() -> None:
    units = [[one for one in unit if one is not None] for unit in zip(*OBSERVERS, strict=True)]
    alpha = krippendorffs_alpha(units)
    assert alpha == pytest.approx(0.849, abs=5e-4)
    assert krippendorffs_alpha([[1, 1], [1, 1]]) is None
    assert krippendorffs_alpha([]) is None
    assert krippendorffs_alpha([[1, 1], [5, 5], [3]]) == 1.0


def test_kappa_by_hand() -> None:
    # equal in 3 of 4; by chance 1/2 * 3/4 + 1/2 * 1/4 = 1/2
    pairs = [(1, 1), (1, 1), (2, 2), (2, 1)]
    assert cohens_kappa([(float(a), float(b)) for a, b in pairs]) == 0.5
    assert cohens_kappa([(1.0, 1.0)]) is None


def labels(*rows: tuple[str, str, str, float]) -> None:
    names = ("id", "metric", "rater", "score")
    lines = (json.dumps(dict(zip(names, row, strict=True))) for row in rows)
    Path("labels.jsonl").write_text("".join(f"{line}\n" for line in lines))


def test_people_are_compared_with_each_other_and_with_the_judge_of_a_run() -> None:
    scores = {"a.0": 5.0, "b.0": 1.0, "c.0": 3.0}
    rows = [
        (one, "ProgressScore", who, score) for who in ("x", "y") for one, score in scores.items()
    ]
    labels(*rows)
    records = []
    for name, score in scores.items():
        record = episode(made(1))
        record.episode, record.id = name, name[0]
        record.judgement = Judgement("llm:m", "trajectory", by_metric={"ProgressScore": [score, 1]})
        records.append(record)
    write_run(Path("run"), records, suite="fintrace")
    done = finbench("agreement", "labels.jsonl", "--run", "run", "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["metrics"]
    assert (row["metric"], row["episodes"]) == ("ProgressScore", 3)
    assert row["raters"] == ["llm:m", "x", "y"]
    by_pair = {tuple(pair["raters"]): pair["kappa"] for pair in row["pairs"]}
    assert by_pair["x", "y"] == 1.0
    assert by_pair["llm:m", "x"] < 1
    assert row["alpha"] < 1
    told = finbench("agreement", "labels.jsonl").stdout
    assert "ProgressScore: alpha 1.000 over 3 episodes" in told
    assert "x and y: kappa 1.000, weighted 1.000, 3 episodes" in told


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "labels.jsonl holds no labels"),
        ('{"id": "a", "metric": "m", "rater": "x"}\n', "labels.jsonl:1: score"),
        ('{"id": 1, "metric": "m", "rater": "x", "score": 1}\n', "labels.jsonl:1: id"),
        ('{"id": "a", "metric": "m", "rater": "x", "score": 1}\n' * 2, "labels.jsonl:2: x scores"),
        ("{\n", "labels.jsonl:1: "),
    ],
)
def test_labels_that_can_not_be_read_are_named(text: str, said: str) -> None:
    Path("labels.jsonl").write_text(text)
    done = finbench("agreement", "labels.jsonl")
    assert (done.returncode, said in done.stderr) == (1, True), done.stderr


def test_labels_that_can_not_be_compared_are_an_error(tmp_path: Path) -> None:
    whole = {"id": "a.0", "metric": "m", "rater": "r", "score": 1}
    file = tmp_path / "labels.jsonl"
    for text, why in (
        (f"{json.dumps(whole)}\n{json.dumps(whole)[:-4]}", "the last line is incomplete"),
        ("\n".join(json.dumps({**whole, "rater": f"r{n}"}) for n in range(51)), "over 50 raters"),
    ):
        file.write_text(text)
        done = finbench("agreement", str(file))
        assert done.returncode == 1
        assert why in done.stderr
    file.write_text(json.dumps(whole) + "\n")
    write_run(tmp_path / "run", [episode()])
    done = finbench("agreement", str(file), "--run", str(tmp_path / "run"))
    assert done.returncode == 1
    assert "nothing in common with the labels" in done.stderr


def test_many_different_scores_take_no_time() -> None:
    pairs = [(n / 7, (n * 31 % 5_000) / 7) for n in range(5_000)]
    kappa = weighted_kappa(pairs)
    assert kappa is not None
    assert abs(kappa) < 0.05
