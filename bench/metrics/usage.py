"""What episodes used: rounds, tools, requests to models and their tokens; and how they ended. It
has no times, so two runs in which the same happened have the same figures.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from bench.metrics.interval import share, spread
from bench.metrics.mergeable import Mergeable
from bench.record import EpisodeRecord, ModelCallRecord, ToolCallRecord
from gateway.telemetry.quantile import Quantiles

TOKENS = ("input", "cached", "output")
"""`cached` are the input tokens that the endpoint had in its cache."""

MODELS = 20
"""How many models have counts of their own; the others are counted together, without names."""

Model = tuple[str, str | None]
"""The model that was asked for, and the one that answered, as its endpoint says."""


class Requests(Mergeable):
    """Requests to models. Token quantiles are over the episodes that made some. `models` has by
    model its requests, how many were answered without a count of tokens, and its tokens.
    """

    def __init__(self) -> None:
        self.purposes: Counter[str] = Counter()
        self.models: dict[Model, Counter[str]] = {}
        self.tokens_an_episode = {name: Quantiles() for name in TOKENS}

    def add(self, calls: Sequence[ModelCallRecord]) -> None:
        """Add the requests of one episode."""
        if not calls:
            return
        took = dict.fromkeys(TOKENS, 0)
        for call in calls:
            self.purposes[call.purpose] += 1
            model: Model = (call.model, call.answered_by)
            if (of := self.models.get(model)) is None:
                model = model if len(self.models) < MODELS else ("", None)
                of = self.models.setdefault(model, Counter())
            is_failed = call.error is not None
            of["calls"] += 1
            of["failed"] += is_failed
            of["attempts"] += call.attempts
            of["uncounted"] += not (is_failed or call.input_tokens or call.output_tokens)
            for name in TOKENS:
                tokens = getattr(call, f"{name}_tokens")
                of[name] += tokens
                took[name] += tokens
        for name, tokens in took.items():
            self.tokens_an_episode[name].add(tokens)

    def result(self) -> dict[str, Any]:
        whole = sum(self.models.values(), Counter[str]())
        return {
            "model_calls": {
                **{name: whole[name] for name in ("calls", "failed", "attempts")},
                "purposes": dict(sorted(self.purposes.items())),
            },
            "tokens": {name: whole[name] for name in TOKENS},
            "tokens_an_episode": {
                name: _whole(quantiles.result())
                for name, quantiles in self.tokens_an_episode.items()
            },
        }

    def by_model(self) -> list[dict[str, Any]]:
        """A row for each model that was asked."""
        return [
            {
                "model": asked,
                "answered_by": answered_by,
                "calls": of["calls"],
                "uncounted": of["uncounted"],
                "tokens": {name: of[name] for name in TOKENS},
            }
            for (asked, answered_by), of in sorted(
                self.models.items(), key=lambda item: (item[0][0], item[0][1] or "")
            )
        ]


class Usage(Mergeable):
    """Counts over episodes: the agents' requests to models, and separately the judges'."""

    def __init__(self) -> None:
        self.endings: Counter[str] = Counter()
        self.rounds: Counter[int] = Counter()
        self.agent = Requests()
        self.judge = Requests()

    def add(self, record: EpisodeRecord, last_round: list[ToolCallRecord]) -> None:
        self.endings[record.ending] += 1
        self.rounds[last_round[0].step if last_round else 0] += 1
        self.agent.add(record.model_calls)
        if record.judgement is not None:
            self.judge.add(record.judgement.model_calls)

    @property
    def answered_by(self) -> dict[str, list[str]]:
        """The names of the models that answered agents and judges, as far as there are any."""
        sides = {"agent": self.agent, "judge": self.judge}
        names = {
            side: sorted({name for _, name in of.models if name}) for side, of in sides.items()
        }
        return {side: known for side, known in names.items() if known}

    @property
    def models(self) -> dict[str, Any]:
        """What agents and judges asked of each model."""
        return {"agent": self.agent.by_model(), "judge": self.judge.by_model()}

    def result(self) -> dict[str, Any]:
        """The agents' figures at the top level, the judges' under `judge`."""
        return {
            "endings": dict(sorted(self.endings.items())),
            "rounds": spread(self.rounds),
            **self.agent.result(),
            "judge": self.judge.result(),
        }


def _whole(quantiles: dict[str, float | None]) -> dict[str, int | None]:
    """Quantiles as whole numbers: the sketch has no zero, only something very small."""
    return {name: None if figure is None else round(figure) for name, figure in quantiles.items()}


class ToolUse(Mergeable):
    """Counts over episodes. Calls of tools that were not offered count only in episodes that name
    candidates, hits of labels only in episodes of labelled tasks, and offers of labelled tools only
    in those that are both.
    """

    def __init__(self) -> None:
        self.calls: Counter[int] = Counter()
        self.distinct: Counter[int] = Counter()
        self.offered = 0
        self.not_offered = 0
        self.labelled = 0
        self.hit_any = 0
        self.hit_all = 0
        self.choosing = 0
        self.offered_any = 0
        self.offered_all = 0

    def add(self, record: EpisodeRecord) -> None:
        names = [call.tool_name for call in record.agent_calls]
        called = set(names)
        self.calls[len(names)] += 1
        self.distinct[len(called)] += 1
        if candidates := record.candidate_tools:
            self.offered += len(names)
            if not called.issubset(candidates):
                self.not_offered += sum(name not in candidates for name in names)
        if labels := record.labelled_tools:
            self.labelled += 1
            self.hit_any += not called.isdisjoint(labels)
            self.hit_all += called.issuperset(labels)
            if candidates:
                self.choosing += 1
                self.offered_any += not set(candidates).isdisjoint(labels)
                self.offered_all += set(candidates).issuperset(labels)

    def result(self) -> dict[str, Any]:
        return {
            "calls_an_episode": spread(self.calls),
            "tools_an_episode": spread(self.distinct),
            "not_offered": {
                "calls": self.not_offered,
                "of": self.offered,
                "share": share(self.not_offered, self.offered),
            },
            "labelled": {
                "episodes": self.labelled,
                "offered_any": share(self.offered_any, self.choosing),
                "offered_all": share(self.offered_all, self.choosing),
                "called_any": share(self.hit_any, self.labelled),
                "called_all": share(self.hit_all, self.labelled),
            },
        }
