"""Making tasks: the same bytes for the same options, and calls that the catalogue allows."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.simulator.akshare import FUNCTIONS
from adapters.simulator.world.world import World
from bench.suites.generated.facts import WorldFacts, call_of, subjects, views
from bench.suites.generated.make import DIFFICULTIES, LANGUAGES, Maker, templates
from bench.suites.generated.program import leaves
from manifests import Catalog
from tests.support.tools import tool

ENOUGH = 400
"""So many tasks use every template."""

WORLD = World(0)


def made(number: int, **how: Any) -> list[dict[str, Any]]:
    return list(Maker(WORLD, **{"seed": 5, **how}).tasks(number))


@pytest.fixture(scope="module")
def tasks() -> list[dict[str, Any]]:
    return made(ENOUGH)


def test_a_seed_gives_the_same_tasks_and_fewer_are_the_first_of_them(
    tasks: list[dict[str, Any]],
) -> None:
    assert made(60) == tasks[:60]
    assert made(20) == tasks[:20]
    others = {task["id"] for task in made(60, seed=6)}
    assert len(others & {task["id"] for task in tasks}) < 3
    again = list(Maker(World(1), seed=5).tasks(30))
    assert sum(one["answer"] == two["answer"] for one, two in zip(again, tasks, strict=False)) < 15


def test_no_question_stands_twice_and_difficulties_and_languages_are_even(
    tasks: list[dict[str, Any]],
) -> None:
    for name in ("id", "question"):
        assert len({task[name] for task in tasks}) == ENOUGH
    each = ENOUGH / len(DIFFICULTIES) / len(LANGUAGES)
    for difficulty in DIFFICULTIES:
        for language in LANGUAGES:
            of = [t for t in tasks if (t["difficulty"], t["language"]) == (difficulty, language)]
            assert 0.9 * each <= len(of) <= 1.1 * each
    only = made(30, difficulties=(4,), languages=("en",))
    assert {(task["difficulty"], task["language"]) for task in only} == {(4, "en")}


def test_each_template_has_both_languages_and_is_used(tasks: list[dict[str, Any]]) -> None:
    assert all(template.zh and template.en for template in templates())
    assert {task["template"] for task in tasks} == {template.name for template in templates()}


def test_a_task_offers_its_tools_and_calls_what_its_program_needs(
    tasks: list[dict[str, Any]], catalog: Catalog
) -> None:
    for task in tasks:
        known = {leaf.text for leaf in leaves(task["program"])}
        assert len(task["calls"]) <= len(known)
        possible = [call_of(leaf) for leaf in leaves(task["program"])]
        assert all((call["tool"], call["arguments"]) in possible for call in task["calls"])
        assert {call["tool"] for call in task["calls"]} <= {*task["tools"]}
        assert all(catalog.get(name) is not None for name in task["tools"])
        assert "{" not in task["question"]
        chinese = any("\u4e00" <= letter <= "\u9fff" for letter in task["question"])
        assert chinese == (task["language"] == "zh"), task["question"]


def test_the_answers_by_name_are_as_often_any_place_of_the_question(
    tasks: list[dict[str, Any]],
) -> None:
    """A right answer is not told by where it stands, and a truth is as often yes as no."""
    truths = [task["answer"].value for task in tasks if task["answer"].kind == "truth"]
    assert 0.35 < sum(truths) / len(truths) < 0.65
    named = [task["answer"] for task in tasks if task["answer"].kind == "name"]
    first = sum(next(iter(answer.options)) == answer.value for answer in named)
    chance = sum(answer.chance for answer in named)
    assert abs(first - chance) < 3 * chance**0.5


@pytest.mark.parametrize("view", views().values(), ids=views().keys())
def test_the_catalogue_has_the_tool_of_each_view_with_its_parameters(
    view: Any, catalog: Catalog
) -> None:
    manifest = tool(catalog, view.tool)
    assert not manifest.unavailable
    parameters = {one.name: one for one in manifest.parameters}
    assert {*view.arguments} <= {*parameters}
    assert {name for name, one in parameters.items() if one.required} <= {*view.arguments}
    if manifest.source == "akshare":
        assert view.tool in FUNCTIONS
    assert {*view.scales} <= {*view.facts}
    kinds = {one.kind for one in subjects().values()} | {"csi", "cni"}
    assert {*view.subjects} <= kinds


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_fact_is_one_number_whatever_range_it_is_asked_for(
    tasks: list[dict[str, Any]], data: st.DataObject
) -> None:
    facts = WorldFacts(WORLD)
    of_range = [
        leaf
        for task in tasks[:60]
        if task["answer"].kind != "unknown"
        for leaf in leaves(task["program"])
        if leaf.fact in ("close", "volume", "parity", "bond_yield", "value")
    ]
    leaf = data.draw(st.sampled_from(of_range))
    whole = facts(leaf)
    day, value = data.draw(st.sampled_from(whole))
    assert leaf.first <= day <= leaf.last
    assert facts(replace(leaf, first=day, last=day)) == [(day, value)]
    assert [one for one, _ in whole] == sorted({one for one, _ in whole})
