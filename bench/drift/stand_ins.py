"""Whether declared stand-ins still give the same facts, by the answers in one snapshot."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import orjson

from cache import Row, Snapshot
from cache.row import OK
from gateway.pipeline.bind import Binder, BoundCall, InvalidCall
from manifests import Catalog, Manifest, Scalar
from manifests.stand_ins import Pair, UnfitError, differences, pairs, problems

SHOWN = 20
"""Cells that are told of one pair of answers."""


def checked(snapshot: Snapshot, catalog: Catalog) -> dict[str, Any]:
    """Every recorded answer of a tool with stand-ins, beside what the snapshot has of these. Raises
    `SnapshotError`.
    """
    binder, found, counts = Binder(catalog), list[dict[str, Any]](), Counter[str]()
    for pair in _declared(catalog):
        for row in snapshot.rows(pair.asked.name):
            bound = _other_call(binder, pair, dict(row.arguments))
            if row.status != OK or isinstance(bound, str):
                continue
            other = snapshot.get(bound.key)
            if other is None or other.status != OK:
                counts["not_recorded"] += 1
                continue
            told = _compared(pair, row, other, bound)
            counts[told["verdict"]] += 1
            found.append(told)
    names = ("agree", "differ", "unfit", "not_recorded")
    return {**{name: counts[name] for name in names}, "pairs": found}


def calls(catalog: Catalog) -> Iterator[dict[str, Any]]:
    """The calls to record for `checked`: the probe of each tool with stand-ins, and theirs."""
    binder, made = Binder(catalog), set[str]()
    for pair in _declared(catalog):
        bound, asked = None, dict[str, Scalar]()
        for asked in _samples(pair):
            try:
                own = binder.bind(pair.asked.name, asked)
            except InvalidCall:
                continue
            other = _other_call(binder, pair, dict(own.arguments))
            if not isinstance(other, str):
                bound = other
                break
        if bound is None:
            continue
        sent = (pair.asked.name, asked), (pair.other.name, dict(bound.arguments))
        for tool, arguments in sent:
            if (key := binder.bind(tool, arguments).key) not in made:
                made.add(key)
                yield {"tool": tool, "arguments": arguments}


def _declared(catalog: Catalog) -> Iterator[Pair]:
    by_name: dict[str, Manifest] = {manifest.name: manifest for manifest in catalog}
    for manifest in catalog:
        for pair in pairs(manifest, by_name):
            if not manifest.unavailable and not pair.other.unavailable and not [*problems(pair)]:
                yield pair


def _samples(pair: Pair) -> Iterator[dict[str, Scalar]]:
    """Arguments to which the stand-in may apply."""
    probe = {**pair.asked.probe(), **pair.asked.sample()}
    yield probe
    for filling in pair.stand_in.arguments.values():
        for value in filling.values or ():
            yield {**probe, str(filling.of): value}


def _other_call(binder: Binder, pair: Pair, asked: dict[str, Scalar]) -> BoundCall | str:
    try:
        return binder.bind(pair.other.name, pair.arguments(asked))
    except UnfitError as unfit:
        return str(unfit)
    except InvalidCall as invalid:
        return invalid.error.message


def _compared(pair: Pair, asked: Row, other: Row, bound: BoundCall) -> dict[str, Any]:
    about = {
        "tool": pair.asked.name,
        "answered_by": pair.other.name,
        "arguments": asked.arguments,
        "verdict": "agree",
        "cells": 0,
        "differing": 0,
        "differences": [],
        "why": None,
    }
    try:
        rows = [orjson.loads(row.entry.data) for row in (asked, other)]
        if asked.entry.rows is None or other.entry.rows is None:
            raise UnfitError("an answer is no table")
        mapped = pair.rows(rows[1], dict(asked.arguments), bound.arguments)
        cells, found = differences(pair, rows[0], mapped)
        if not cells:
            raise UnfitError("the answers have no day in common")
    except UnfitError as unfit:
        return {**about, "verdict": "unfit", "why": str(unfit)}
    told = [
        {"day": d.day, "column": d.column, "asked": d.asked, "answered": d.answered}
        for d in found[:SHOWN]
    ]
    verdict = "differ" if found else "agree"
    more = {"verdict": verdict, "cells": cells, "differing": len(found), "differences": told}
    return {**about, **more}
