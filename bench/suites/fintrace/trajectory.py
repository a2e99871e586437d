"""FinTrace's computed metrics (arXiv 2604.10015): they compare a trajectory with the gold one.

A trajectory is the calls of an episode in their order. The paper defines the metrics in words. What
is said here about an empty trajectory, about arguments and about repeats is our reading.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import orjson

from bench.record import EpisodeRecord, ToolCallRecord
from bench.task import signature_of
from manifests import ArgumentError

Call = tuple[str, str]
"""The name of a tool, and its canonical arguments as JSON."""


def computed(record: EpisodeRecord) -> dict[str, float | None]:
    """Tool-calling F1, precision and recall (by tools, and by tools with their arguments), step
    efficiency (the share of gold steps in the steps taken, at most 1, where a step is a call) and
    redundancy, each from 0 to 1.

    Those that need a gold trajectory are None where the record has none, and those with arguments
    where its gold trajectory has no arguments. A gold call without arguments stands for any call
    of its tool.
    """
    called = [_call(call.tool_name, call.parameters) for call in record.tool_calls]
    figures: dict[str, float | None] = {"Redundancy": redundancy(record.tool_calls)}
    gold, arguments = record.labelled_tools, record.labelled_arguments
    if gold:
        figures |= _named(overlap([name for name, _ in called], gold))
        # It does not say whether the steps were the right ones: a trajectory without steps has 1.
        figures["StepEfficiency"] = min(1.0, len(gold) / len(called)) if called else 1.0
        figures["ToolCallingF1_ceiling"] = ceiling(gold, record.candidate_tools)
    if len(arguments) == len(gold) > 0:
        labelled = list(zip(gold, arguments, strict=True))
        exact = [_call(tool, given) for tool, given in labelled if given is not None]
        of_any = [tool for tool, given in labelled if given is None]
        if exact:
            figures |= _named(overlap(called, exact, of_any), "_arguments")
    return figures


def overlap(
    called: Sequence[Any], gold: Sequence[Any], of_any: Sequence[str] = ()
) -> tuple[float, float, float]:
    """Precision, recall and F1 of two multisets. `of_any` has further gold calls by their tools;
    each stands for a call that is none of `gold`. Two empty multisets are equal, so all are 1;
    where only one is empty, all are 0.
    """
    wanted = len(gold) + len(of_any)
    if not called and not wanted:
        return 1.0, 1.0, 1.0
    alike = Counter(called) & Counter(gold)
    both = alike.total()
    if of_any:
        left = Counter(tool for tool, _ in (Counter(called) - alike).elements())
        both += (left & Counter(of_any)).total()
    precision = both / len(called) if called else 0.0
    recall = both / wanted if wanted else 0.0
    return precision, recall, 2 * both / (len(called) + wanted)


def ceiling(gold: Sequence[str], offered: Collection[str]) -> float | None:
    """The tool-calling F1 of an agent that makes each gold call whose tool it was offered, and no
    others; None where the record does not say what was offered. Below 1 the retrieval, not the
    agent, keeps F1 down.
    """
    return overlap([name for name in gold if name in offered], gold)[2] if offered else None


def redundancy(calls: Sequence[ToolCallRecord]) -> float:
    """The share of calls that are no repeats; 1 without calls. A repeat has the tool and the
    canonical arguments of an earlier call and brought nothing new: the same output, or the same
    error.
    """
    seen: set[tuple[Call, str]] = set()
    for call in calls:
        brought = call.code if not call.ok else None
        seen.add((_call(call.tool_name, call.parameters), brought or _json(call.output)))
    return len(seen) / len(calls) if calls else 1.0


def _named(figures: tuple[float, float, float], which: str = "") -> dict[str, float]:
    names = ("ToolCallingPrecision", "ToolCallingRecall", "ToolCallingF1")
    return {f"{name}{which}": figure for name, figure in zip(names, figures, strict=True)}


def _call(tool: str, arguments: dict[str, Any]) -> Call:
    """A call with the arguments in which our catalogue would make it, defaults included; those of a
    tool that it does not have, or can't bind, stand as they are.
    """
    signature = signature_of(tool)
    if signature is not None:
        try:
            return tool, _json(signature.bind(signature.completed(arguments)))
        except ArgumentError:
            pass
    return tool, _json(arguments)


def _json(value: object) -> str:
    """A value as JSON in which equal values are equal texts: sorted names, and 5 for 5.0."""
    return orjson.dumps(_plain(value), option=orjson.OPT_SORT_KEYS).decode()


def _plain(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value) if abs(value) < 2**53 else value
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value
