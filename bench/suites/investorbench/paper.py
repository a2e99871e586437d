"""What InvestorBench's authors did (arXiv 2412.18174, and their program), and what we do.

The published rows are those that public summaries quote of the paper's tables. Buy & Hold of BTC
and ETH was computed anew from the public files, and agrees.
"""

from typing import Final

from bench.suites.paper import (
    AS_PAPER,
    DECODING,
    Column,
    DataFile,
    Given,
    Paper,
    Repository,
    Setting,
    Table,
)

REPEATS = 5

REPOSITORY: Final = Repository(
    "felis33/INVESTOR-BENCH",
    "87e0f7bc83baf7d89fbdc1a51f92458f8d4ee11a",
    (
        DataFile("data/btc.json", "dea68ba924aa5df0da4ba65a80b92791580c78c2"),
        DataFile("data/eth.json", "d67d86c2caaa80c4efe7285d776a4352d0b210da"),
        DataFile("data/hon.json", "470b07a290f12de5995aa08b165de0e67f402983"),
        DataFile("data/jnj.json", "fbf80fab81e11f553c48eeb4195f9da0cedd9962"),
        DataFile("data/msft.json", "f63d30486b936dfa2bba3354803f0aa9b0d62865"),
        DataFile("data/nflx.json", "83a949165190ece55ba1527f7140f0f0ae92711f"),
        DataFile("data/uvv.json", "f5ae38c612cb778d8d3d5633b225298137664e9b"),
        DataFile("configs/main.json", "0a94167c7e60962bf7178c22bd601079af5157f8", is_data=False),
    ),
    "MIT",
)

_FIGURES: Final = ("CR", "SR", "AV", "MDD")
_NOTE: Final = "CR, AV and MDD in percent; rows as public summaries quote them"


def _columns(*path: str) -> list[Column]:
    return [Column(name, (*path, name), 1 if name == "SR" else 100) for name in _FIGURES]


def _held(symbol: str) -> dict[str, list[Column]]:
    return {"Buy & Hold, these data": [Column("CR", ("breakdown", "id", symbol, "held_CR"), 100)]}


def _embeddings(given: Given) -> str:
    model = given["embedding_model"]
    if model == "text-embedding-3-large":
        return AS_PAPER
    return f"differs: {model or 'BM25, without --embedding-model'}"


def _windows(given: Given) -> str:
    others = [f"{n}={v}" for n, v in given.pairs("environment").items() if n != "hindsight"]
    return f"differs: {', '.join(others)}" if others else AS_PAPER


def _repeats(given: Given) -> str:
    if given["episodes"] in (None, REPEATS * given.tasks):
        return AS_PAPER
    return f"differs: {given['episodes']} episodes of {given.tasks} tasks"


def _reflections(given: Given) -> str:
    return AS_PAPER if given["embedding_model"] else "differs: the cosine is over words"


PAPER: Final = Paper(
    title="InvestorBench",
    source="arXiv 2412.18174 (ACL 2025)",
    program="github.com/felis33/INVESTOR-BENCH at 87e0f7b",
    settings=(
        Setting("stocks", "seven", "cannot be had: five are public, HON, JNJ, MSFT, NFLX and UVV"),
        Setting("crypto", "BTC and ETH, each with a window of its own"),
        Setting("ETF", "SPY with NIFTY's headlines", "cannot be had: its series is not public"),
        Setting(
            "windows",
            "warm-up and test as published; only test days count",
            _windows,
            tells=("environment",),
        ),
        Setting("decision", "buy, sell or hold once a day, from the day's price to the next one"),
        Setting(
            "agent",
            "FinMem: four layers of memory, 5 memories of each, reflections",
            options=("agent", "max_rounds", "max_calls", "max_wall_s"),
        ),
        Setting(
            "profile of the asset",
            "in the prompt, and the query of the memory",
            lambda given: (
                AS_PAPER
                if given.named("agent_options", "profiles")
                else "differs: none, news are the query; --agent-option profiles=FILE"
            ),
            tells=("agent_options",),
        ),
        Setting("embeddings", "text-embedding-3-large", _embeddings),
        Setting("reflections", "one that is as similar as 0.95 is not added", _reflections),
        Setting(
            "warm-up",
            "tells the next day's price; the position follows it",
            lambda given: (
                AS_PAPER
                if given.named("environment", "hindsight") == "true"
                else "differs: no day is known before it comes"
            ),
        ),
        Setting(
            "filings",
            "quarterly and annual reports enter memory (paper); the program stores news only",
            "as the paper's text",
        ),
        Setting("temperature", "0.6", options=DECODING),
        Setting(
            "form of answers",
            "1,000 tokens, JSON by guided decoding",
            "differs: JSON is asked for, an answer that is none holds",
        ),
        Setting("repeats", "5, of which the median counts", _repeats, tells=("episodes",)),
        Setting("baseline", "Buy & Hold; equal weights for several assets"),
        Setting(
            "portfolio",
            "weights by mean and variance with shrinkage (program)",
            "differs: equal weights of the assets that are held",
        ),
    ),
    tables=(
        Table(
            "Stocks, mean",
            _columns("breakdown", "category", "stock"),
            {
                "Buy & Hold": (34.10, 0.505, 51.07, 34.95),
                "GPT-4o": (39.03, 0.718, 39.08, 21.23),
                "Qwen2.5-72B": (46.15, 0.880, 38.42, 19.52),
                "Yi-1.5-34B": (37.97, 0.573, 50.31, 34.32),
                "Yi-1.5-9B": (22.91, 0.330, 49.99, 36.95),
                "Palmyra-Fin-70B": (-0.45, 0.021, 43.93, 36.56),
            },
            digits=3,
            note=f"{_NOTE}; over seven stocks",
        ),
        Table(
            "BTC",
            _columns("breakdown", "id", "BTC"),
            {
                "Buy & Hold": (21.82, 0.989, None, None),
                "proprietary models, mean": (23.60, 1.195, None, None),
                "open models, mean": (14.14, 0.795, None, None),
                "DeepSeek-67B": (28.31, 1.290, None, None),
            },
            digits=3,
            note=_NOTE,
            baselines=_held("BTC"),
        ),
        Table(
            "ETH",
            _columns("breakdown", "id", "ETH"),
            {
                "Buy & Hold": (4.53, 0.211, None, None),
                "proprietary models, mean": (2.89, 0.158, None, None),
                "open models, mean": (1.02, 0.090, None, None),
                "Qwen2.5-72B": (11.98, 0.846, None, None),
            },
            digits=3,
            note=_NOTE,
            baselines=_held("ETH"),
        ),
        Table(
            "ETF",
            _columns("breakdown", "category", "etf"),
            {
                "Buy & Hold": (2.07, 0.06, 46.65, 35.75),
                "Palmyra-Fin-70B": (24.76, 1.152, 30.42, 8.20),
                "GPT-o1-preview": (21.22, 0.849, 43.77, 20.05),
                "Qwen2.5-32B": (19.62, 0.955, 29.07, 7.50),
                "open models, mean": (5.83, 0.282, 28.84, 14.84),
                "proprietary models, mean": (12.11, 0.445, 44.87, 30.17),
            },
            digits=3,
            note=_NOTE,
        ),
    ),
    options={
        ("agent",): ("--agent", "finmem"),
        ("agent", *DECODING): ("--temperature", "0.6"),
    },
    wanted={"dataset": "the data folder", "model": "the model", "base_url": "its endpoint"},
    cost="150 to 270 days, a request a day or more; a repeat of the nine public tasks took 2,855",
    repeats=REPEATS,
    repository=REPOSITORY,
    differences=(
        "the sign of the warm-up's price difference is reversed in the program, so that its "
        "positions there follow losses; ours follow gains",
        "its reward of three days takes each day's difference with the position of the day after",
        "its README's last day of crypto is 2023-12-19; the paper's figures end on 2023-11-05",
    ),
)
