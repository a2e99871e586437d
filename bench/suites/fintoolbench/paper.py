"""What FinToolBench's authors did (arXiv 2603.08262, and their program), and what we do."""

from typing import Final

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

QUESTIONS, TOOLS = 295, 760

REPOSITORY: Final = Repository(
    "Double-wk/FinToolBench",
    "5001498ca7b90efef94791f93463266e2a1ddbee",
    (
        DataFile("data/question/select_data_real_remove_duplicates.jsonl"),
        DataFile("tools/tools_all_annotated.jsonl", is_data=False),
    ),
    "none is stated",
)

_COLUMNS = ("TIR", "TESR_text", "CER_text", "SoftScore", "CSS", "TMR", "IMR", "DMR")
_HEADS = ("TIR", "TESR", "CER", "Soft", "CSS", "TMR", "IMR", "DMR")

ROWS: Final = {
    "Doubao-Seed-1.6": (0.6508, 0.3254, 0.5000, 0.3958, 0.4627, 0.3438, 0.6563, 0.1719),
    "Qwen3-8B": (0.8712, 0.2949, 0.3385, 0.4234, 0.4040, 0.3307, 0.6887, 0.1673),
    "GLM-4.7-Flash": (0.4407, 0.2102, 0.4769, 0.2769, 0.3791, 0.4615, 0.7231, 0.1769),
    "GPT-4o": (0.2267, 0.1400, 0.6176, 0.2302, 0.6700, 0.3529, 0.5000, 0.1176),
}
"""The main table of arXiv 2603.08262."""

PUBLISHED: Final = {model: dict(zip(_COLUMNS, row, strict=True)) for model, row in ROWS.items()}
"""The same by our names. Its evaluator detects failed calls by words in the output, so its TESR and
CER compare with our `_text` variants.
"""


def _questions(given: Given) -> str:
    if given["episodes"] not in (None, QUESTIONS):
        return f"differs: {given['episodes']} episodes"
    if given.tasks == QUESTIONS:
        return "; ".join((AS_PAPER, *given.notes))
    return f"differs: {given.tasks} questions" if given.tasks else NO_DATA


def _upstream(given: Given) -> str:
    if given["upstream"] == "simulated":
        return "differs: a simulated upstream answers"
    return "differs: the same sources, as they are today, and AkShare as it is installed"


def _retriever(given: Given) -> str:
    model = str(given["embedding_model"] or "")
    if given["retrieval"] in ("gold", "all", "bm25", "fused"):
        return f"differs: --retrieval {given['retrieval']}"
    if model.lower().rpartition("/")[2] == "bge-m3":
        return AS_PAPER
    if model:
        return f"differs: {model}, dense, cosine, top 20"
    return "differs: BM25 over words, top 20; --embedding-model BAAI/bge-m3 is the paper's"


def _cards(given: Given) -> str:
    if given["cards"] == "paper":
        return AS_PAPER
    return "differs: our descriptions and schemas; --manifests FILE shows theirs"


def _reading(given: Given) -> str:
    if given["reading"] == "paper":
        return "as the paper in its table, which is by the program; --reading is for metrics above"
    return AS_PAPER


def _judge(given: Given) -> str:
    if "gpt-5.1" in str(given["judge_model"]).lower():
        return AS_PAPER
    model = given["judge_model"] or given["model"] or "another model"
    return f"differs: {model}, {given['judge_repeats']} repeats"


PAPER: Final = Paper(
    title="FinToolBench",
    source="arXiv 2603.08262",
    program="github.com/Double-wk/FinToolBench at 5001498",
    settings=(
        Setting("questions", "295: 252 Chinese, 43 English", _questions, tells=("episodes",)),
        Setting(
            "tools", "760 live tools: 261 RapidAPI endpoints, 499 AkShare functions", _upstream
        ),
        Setting(
            "retrieval", "BGE-M3, dense, cosine, top 20", _retriever, ("top_k",), ("retrieval",)
        ),
        Setting("tool cards", "description and parameters of the manifest, tags as JSON", _cards),
        Setting(
            "prompts of the planner",
            "a sentence on the tags in Chinese (program); rules on tags in English (appendix)",
            "differs: the rules in our words, after a request that infers the constraints",
        ),
        Setting(
            "agent",
            "plan, call, answer, with the tags of tools in the prompt",
            options=("agent", "agent_options", "no_inject", "hard_filter"),
        ),
        Setting(
            "rounds",
            "at most 5, each with several calls; then a final answer without tools",
            options=("max_rounds", "max_calls"),
        ),
        Setting("calls", "60 s each, up to 2 retries, cached"),
        Setting(
            "long outputs",
            "from 500 characters on reduced by Qwen3-8B to what the question needs",
            "differs: reduced by the planner's own model",
            ("max_output_chars", "max_output_tokens"),
        ),
        Setting("an empty answer", "asked for once more without tools"),
        Setting(
            "decoding",
            "temperature 0.8, top_p 0.7, 500 tokens (program)",
            options=DECODING,
        ),
        Setting(
            "judge",
            "GPT-5.1, 3 repeats for an answer",
            _judge,
            ("judge", "judge_repeats", "judge_protocol"),
        ),
        Setting(
            "prompts of the judge",
            "by kind of answer; for each tool and dimension a request of its own",
            "differs: the same decisions, asked in our words",
        ),
        Setting("scores", "any number, clamped to 0 to 1; numbers and choices from 0.5 on are 1"),
        Setting(
            "failed calls",
            "words in the output, in the last round; an error of the episode",
            "as the paper in its table; TESR and CER in metrics.json are by typed outcomes",
        ),
        Setting("mismatches", "tools of the last round (program); any call (text)", _reading),
    ),
    tables=(
        Table(
            "Main results (the program's reading)",
            [Column(head, (name,)) for head, name in zip(_HEADS, _COLUMNS, strict=True)],
            ROWS,
        ),
    ),
    options={
        ("agent",): ("--agent", "fatr", "--agent-option", "reduce=true"),
        ("max_rounds",): ("--max-rounds", "5"),
        ("agent", *DECODING): ("--body", '{"temperature": 0.8, "top_p": 0.7, "max_tokens": 500}'),
        ("judge",): ("--judge", "llm"),
        ("judge", "judge_protocol"): ("--judge-protocol", "authors"),
        ("judge", "judge_repeats"): ("--judge-repeats", "3"),
    },
    wanted={
        "dataset": "the question file",
        "model": "the planner",
        "base_url": "its endpoint",
        "judge_model": "the judge, GPT-5.1 in the paper",
    },
    cost="2 to 12 requests to the model, and 3 to the judge for the answer and 3 for each tool",
    implied={"embedding_model": ("--retrieval", "dense"), "manifests": ("--cards", "paper")},
    repository=REPOSITORY,
    differences=(
        "the score prompts of the program at this revision can't be run: their braces are not "
        "escaped; ours follow their scales",
        "the program's request to the model sends no tools: that line is commented out; ours does",
        "AkShare 1.19.5 lacks 8 of the 499 functions; 17 questions are labelled with such tools",
    ),
)
