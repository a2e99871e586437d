"""What FinTrace's authors did (arXiv 2604.10015), and what we do."""

from typing import Final

from bench.suites.paper import DECODING, Column, Given, Paper, Setting, Table

_HEADS: Final = {
    "ToolCallingF1": "F1",
    "TaskRelevance": "Relev.",
    "StepEfficiency": "Steps",
    "Redundancy": "Redund.",
    "LogicalProgression": "Logic",
    "InformationUtilization": "Info.",
    "ProgressScore": "Progress",
    "TaskPassRate": "Pass",
    "FinalAnswerQuality": "Answer",
}

ROWS: Final = {
    "Claude-Opus-4.6": (0.896, None, None, None, None, 3.23, None, 2.65, 3.34),
    "Qwen-3.5-9B": (None, None, 1.0, 1.0, None, None, None, None, None),
}

PUBLISHED: Final = {
    model: {name: one for name, one in zip(_HEADS, row, strict=True) if one is not None}
    for model, row in ROWS.items()
}
"""The same by our names."""


def _tasks(given: Given) -> str:
    if not given.tasks:
        return "cannot be had: they are not public; --dataset names others"
    number = given["episodes"] or given.tasks
    return f"cannot be had: they are not public; {number} episodes of {given.tasks} others"


def _offered(given: Given) -> str:
    if given["retrieval"] == "gold" or (given["top_k"] == 0 and given["retrieval"] is None):
        return "cannot be had: not stated; here the labelled tools"
    if given["retrieval"] == "all":
        return "cannot be had: not stated; here all tools"
    number = 20 if given["top_k"] is None else given["top_k"]
    text = f"cannot be had: not stated; here {number} retrieved ones"
    return f"{text}, and ToolCallingF1_ceiling is the best F1 that they allow"


def _rubrics(given: Given) -> str:
    each = "a request for each axis" if given["judge_protocol"] == "authors" else "one request"
    return f"differs: the rubrics are in our words, {each}"


def _judge(given: Given) -> str:
    if given["judge_model"]:
        return f"differs: {given['judge_model']}, the median of {given['judge_repeats']} repeats"
    return "differs: no judge, so that only the computed metrics are there"


PAPER: Final = Paper(
    title="FinTrace",
    source="arXiv 2604.10015",
    program="not public",
    settings=(
        Setting(
            "tasks", "800 expert-annotated trajectories, 34 categories", _tasks, tells=("episodes",)
        ),
        Setting("tools", "live tools of its own", "differs: the 760 tools of this catalogue"),
        Setting(
            "offered tools",
            "not stated",
            _offered,
            tells=("top_k", "retrieval"),
        ),
        Setting("metrics", "nine, on four axes; four computed, from 0 to 1"),
        Setting(
            "judged metrics",
            "from 1 to 5 by rubrics",
            _rubrics,
            tells=("judge_protocol",),
        ),
        Setting("agent", "function calling", options=("agent", "agent_options", "no_inject")),
        Setting(
            "decoding",
            "not stated",
            "cannot be had: here the model's defaults",
            DECODING,
        ),
        Setting("judge", "a model", _judge, ("judge",), ("judge_repeats",)),
        Setting(
            "limits",
            "long-horizon, not stated",
            "cannot be had: here 30 rounds, 200 calls, 30 minutes",
            ("max_rounds", "max_calls", "max_wall_s"),
        ),
    ),
    tables=(
        Table(
            "Nine metrics on four axes",
            [Column(head, (name,)) for name, head in _HEADS.items()],
            ROWS,
            digits=3,
            note="from the paper's text, over its own 800 tasks; its table is not at hand",
        ),
    ),
    options={
        ("agent",): ("--agent", "llm"),
        ("judge",): ("--judge", "llm"),
        ("judge", "judge_protocol"): ("--judge-protocol", "authors"),
    },
    wanted={
        "dataset": "queries with gold trajectories",
        "model": "the model",
        "base_url": "its endpoint",
        "judge_model": "the judge",
    },
    cost="a request to the model for each round of the trajectory, and 9 to the judge",
    differences=("the paper's human labels are not public: finbench agreement compares your own",),
)
