"""The judge that needs no model: rules, which give the same verdict every time.

It judges numbers and choices. Of the called tools it judges what follows from their tags and the
question's words. It leaves free texts and criteria unjudged, since judging them takes a reader.
"""

import re
from functools import lru_cache

from bench.record import EpisodeRecord, Judgement, ToolVerdict
from bench.suites.fintoolbench.answer import READ, AnswerKind, answer_kind, chosen, stated
from bench.suites.fintoolbench.needs import Needs, needs_of
from bench.suites.quantity import Quantity, asked_scale, quantities, same
from manifests import Catalog, Manifest

_LIVE = frozenset({"realtime", "daily"})
_FILED = frozenset({"as_filed", "periodic"})
_UNDATED = frozenset({"as_filed", "periodic", "static"})
_EQUALS = re.compile("[=≈≒]")


class RulesJudge:
    """Judges an episode in some 10 us, without waiting for anything."""

    name = "rules"

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    async def judge(self, record: EpisodeRecord) -> Judgement:
        kind = answer_kind(record.ground_truth)
        judgement = Judgement(self.name, kind)
        score = score_of(kind, record.ground_truth, record.execution_result, record.question)
        if score is not None:
            judgement.scores.append(score)
        for name in dict.fromkeys(call.tool_name for call in record.agent_calls):
            tool = self._catalog.get(name)
            if tool is not None:
                judgement.tools.append(verdict_on(tool, needs_of(record.question)))
        return judgement


def score_of(kind: AnswerKind, gold: str, answer: str, question: str = "") -> float | None:
    """1 where the answer is right, 0 where it is not, None where rules can't tell.

    A choice is the letter that the answer chooses (`chosen`). A number is compared by `same` with
    the number that the answer states. That is the first number after the last "=" in the part that
    states the answer (`stated`); without such a part, the last number of the text. Years are
    skipped if there is another number. If a gold answer has several numbers, the text must hold
    each of them.
    """
    answer = answer[-READ:]
    if kind == "choice":
        return float(chosen(answer, question) == gold.strip().upper())
    if kind != "numeric":
        return None
    wanted = _gold(gold)
    if not wanted:
        return None
    scale = _scale(question)
    if len(wanted) > 1:
        given = quantities(answer)
        return float(all(any(same(gold, one, scale) for one in given) for gold in wanted))
    number = _stated_number(answer, years=wanted[0].is_year)
    return float(number is not None and same(wanted[0], number, scale))


def _stated_number(text: str, *, years: bool) -> Quantity | None:
    part = stated(text)
    if part is not None:
        found = quantities(_EQUALS.split(part)[-1]) or quantities(part)
        if found := _without_years(found, years):
            return found[0]
    found = _without_years(quantities(text), years)
    return found[-1] if found else None


def _without_years(found: list[Quantity], years: bool) -> list[Quantity]:
    return found if years else [one for one in found if not one.is_year] or found


def verdict_on(tool: Manifest, needs: Needs) -> ToolVerdict:
    """Whether a tool's tags match what a question needs; None for what its words leave open.

    Timeliness: a question about the present needs realtime or daily data, not data that is filed,
    published periodically or never changes; a question about filed reports needs those. Intent: a
    transactional tool matches only a question that asks for a transaction. An advisory tool matches
    a question for advice and is otherwise not judged, since it only reads. Domain: one of the
    tool's domains must be among those that the question's words imply.
    """
    return ToolVerdict(
        tool=tool.name,
        timeliness=_timeliness(tool, needs),
        intent=_intent(tool, needs),
        domain=None if not needs.domains else not needs.domains.isdisjoint(tool.regulatory_domains),
    )


def _timeliness(tool: Manifest, needs: Needs) -> bool | None:
    if needs.time == "filed":
        return True if tool.timeliness in _FILED else None
    if needs.time is None:
        return None
    if tool.timeliness in _LIVE:
        return True
    return False if needs.time == "live" and tool.timeliness in _UNDATED else None


def _intent(tool: Manifest, needs: Needs) -> bool | None:
    if tool.intent_type == "informational":
        return True
    if tool.intent_type == "advisory":
        return True if needs.advice or needs.trade else None
    return needs.trade


_gold = lru_cache(4_096)(quantities)  # the same few hundred gold answers are read again and again
_scale = lru_cache(4_096)(asked_scale)
