"""What `finbench drift accuracy` measures, with fewer tools than the command takes."""

import asyncio
from pathlib import Path

import orjson

from bench.drift.planted.accuracy import make, measure, write
from bench.drift.planted.plants import PLANTS, STRENGTHS
from bench.drift.snapshots.compare import compare
from bench.drift.snapshots.report import CHECKS
from bench.drift.snapshots.rules import Rules
from bench.metrics.interval import share
from cache import Snapshot
from manifests import Catalog

EACH, UNTOUCHED, TOOLS = 3, 40, 150


def test_planted_drift_is_found_and_movement_alone_is_no_error(
    catalog: Catalog, tmp_path: Path
) -> None:
    world = make(catalog, 3, each=EACH, untouched=UNTOUCHED, tools_of=TOOLS)
    before, after = tmp_path / "before", tmp_path / "after"
    asyncio.run(write(world, before, after))
    with Snapshot(before) as first, Snapshot(after) as second:
        assert first.summary.tools == second.summary.tools
        assert len(first.summary.tools) == TOOLS
        assert {*first.summary.upstreams, *second.summary.upstreams} == {"simulated"}
    measured = measure(world, compare(before, after, Rules(), catalog).findings)

    assert {row["kind"] for row in measured["kinds"]} == {*PLANTS}
    assert {row["check"] for row in measured["kinds"]} == {*CHECKS}
    for row in measured["kinds"]:
        assert row["planted"] == EACH, row["kind"]
        assert {*row["recall_by_strength"]} == {*STRENGTHS}
        assert row["found"] + len(row["missed"]) == EACH
        assert row["recall"] == share(row["found"], EACH)
        assert row["recall_by_strength"]["strong"] == 1, row["kind"]
    assert measured["tools"] == TOOLS
    assert measured["moved_tools"] == TOOLS - EACH * len(PLANTS)
    assert "ERR" not in measured["moved_with_findings"]
    assert measured["recall"] >= 0.9
    assert measured["precision"] >= 0.9
    assert orjson.dumps(measured)


def test_a_seed_gives_the_same_world_and_another_one_another(catalog: Catalog) -> None:
    worlds = [make(catalog, seed, each=1, untouched=5, tools_of=40) for seed in (4, 4, 5)]
    answers = [
        [[answer.value for answer in (*tool.before, *tool.after)] for tool in world.tools]
        for world in worlds
    ]
    assert answers[0] == answers[1] != answers[2]
    assert [world.planted for world in worlds[:2]] == [worlds[0].planted] * 2
