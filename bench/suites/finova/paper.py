"""What Finova's authors did (arXiv 2507.16802, and their program), and what we do."""

from typing import Final

from bench.suites.finova.extraction import KINDS
from bench.suites.finova.tasks import AUTHORS
from bench.suites.paper import (
    AS_PAPER,
    DECODING,
    NO_DATA,
    Column,
    DataFile,
    Given,
    Paper,
    Repository,
    Setting,
    Table,
)

PROMPTS = 1_350

_BLOBS: Final = {
    "intent_recognition": "a7bfc658b9d94e819d190456b688addd8828cbd0",
    "slot_filling": "7b7b26230819bf62b7cffac1c4f02220a15a87e3",
    "tool_planning": "d04c303e7482b4e4d2fb5e32253ab6398a9f0f54",
    "expression": "45b5ba9ec8b097ae610cfa12bc7034dd998c98ff",
    "compliance": "6e83e769ed26507ef7b5b94991be8a272e83cf71",
    "reasoning": "515d8b1dead5f30ae6b5e473bae83240bb5eb349",
}

REPOSITORY: Final = Repository(
    "antgroup/Finova",
    "d30d4b272cb57aeb40a49f79122475b8ded568e4",
    tuple(DataFile(f"data/{AUTHORS[kind]}", _BLOBS[kind]) for kind in KINDS),
    "Apache-2.0",
)

_ORDER: Final = (
    *("intent_recognition", "slot_filling", "tool_planning", "expression"),
    *("reasoning", "compliance"),
)

ROWS: Final = {
    "Qwen2.5-14B-Instruct": (19.33, 70.75, 20.16, 20.00, 40.74, 57.00, 37.95),
    "Qwen2.5-72B-Instruct": (56.67, 71.11, 25.97, 25.00, 41.57, 69.00, 48.22),
    "DeepSeek-V3": (54.00, 63.31, 46.90, 31.00, 52.05, 78.50, 54.29),
    "GPT-4o": (42.00, 68.15, 25.97, 21.00, 35.10, 79.00, 45.20),
    "Qwen3-8B": (58.00, 70.83, 40.31, 32.00, 48.57, 77.00, 54.45),
    "Qwen3-32B": (60.67, 72.20, 41.09, 44.00, 54.29, 84.50, 59.46),
    "QwQ-32B": (60.00, 77.88, 39.53, 57.00, 50.78, 85.00, 61.70),
    "DeepSeek-R1": (60.00, 73.70, 50.00, 48.00, 54.96, 81.00, 61.28),
    "GPT-o1": (54.67, 80.36, 51.55, 40.00, 53.19, 83.00, 60.46),
    "Xuanyuan3-70B-Chat": (25.33, 61.71, 24.42, 31.00, 15.60, 65.50, 37.26),
    "Qwen-Fin-R1-7B": (28.14, 49.90, 20.93, 27.00, 28.22, 76.00, 38.37),
    "Qwen-Dianjin-R1-7B": (25.33, 55.72, 22.48, 28.00, 39.28, 80.50, 41.89),
    "Qwen-Dianjin-R1-32B": (54.67, 69.74, 31.78, 47.00, 51.44, 81.50, 56.02),
    "XuanYuan-FinX1-Preview": (49.33, 69.37, 29.07, 48.00, 36.14, 72.50, 50.74),
    "Agentar-Fin-R1-8B": (64.00, 74.19, 48.06, 63.00, 51.63, 80.50, 63.56),
    "Agentar-Fin-R1-32B": (66.67, 86.73, 53.87, 69.00, 56.33, 87.00, 69.93),
}
"""Table 3 of arXiv 2507.16802, in percent."""

PUBLISHED: Final = {
    model: dict(
        zip((*_ORDER, "accuracy_published"), (round(one / 100, 4) for one in row), strict=True)
    )
    for model, row in ROWS.items()
}
"""The same by our names."""

_HEADS = ("Intent", "Slots", "Tools", "Expression", "Reasoning", "Safety")


def _prompts(given: Given) -> str:
    if not given.tasks:
        return NO_DATA
    if given["episodes"] not in (None, given.tasks):
        return f"differs: {given['episodes']} episodes, so that means are over these"
    if given.tasks == PROMPTS:
        return AS_PAPER
    return "differs: " + "; ".join((f"{given.tasks:,} prompts", *given.notes))


PAPER: Final = Paper(
    title="Finova",
    source="arXiv 2507.16802",
    program="github.com/antgroup/Finova at d30d4b2",
    settings=(
        Setting(
            "prompts",
            "1,350: 150, 360, 258, 100, 282 and 200 of the six kinds",
            _prompts,
            tells=("episodes",),
        ),
        Setting(
            "data",
            "not masked",
            lambda given: (
                "differs: prompts of our own"
                if given.suite == "finova-sample"
                else "cannot be had: public data are masked further; expect small differences"
            ),
        ),
        Setting(
            "request",
            "the prompt as the only message; no system message, no tools",
            options=("agent", "agent_options", "max_rounds", "max_calls"),
        ),
        Setting("decoding", "not stated; the program sends the model's defaults", options=DECODING),
        Setting(
            "retries",
            "5 requests, 2 s apart (program)",
            "differs: 3 requests, with growing pauses and as the endpoint asks",
        ),
        Setting("scoring", "regular expressions, rules by kind, a grader of mathematics"),
        Setting("mean", "unweighted over kinds"),
    ),
    tables=(
        Table(
            "Accuracy by the authors' extraction and rules, in percent",
            [
                *(
                    Column(head, ("breakdown", "category", kind, "accuracy_published"), 100)
                    for head, kind in zip(_HEADS, _ORDER, strict=True)
                ),
                Column("Mean", ("accuracy_published",), 100),
            ],
            ROWS,
            digits=2,
        ),
    ),
    options={("agent",): ("--agent", "llm")},
    wanted={"dataset": "the repository", "model": "the model", "base_url": "its endpoint"},
    cost="1 request; 0.8 million tokens in for 1,249 of the public prompts",
    repository=REPOSITORY,
    differences=(
        "`accuracy` beside the table is by our reading; docs/suites.md lists where the two differ",
    ),
)
