"""The suite InvestorBench (arXiv 2412.18174): an agent in a recorded market, day by day."""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, Final

from adapters.market.prices import (
    Market,
    MarketError,
    Window,
    common_days,
    digest_of,
    read_markets,
)
from adapters.market.session import MOST_ASSETS
from bench.metrics.interval import DIGITS, rounded
from bench.metrics.means import Measured
from bench.record import Ending, EpisodeRecord, ToolCallRecord
from bench.suites.investorbench.bootstrap import Bootstrap
from bench.suites.investorbench.charts import InvestorCharts
from bench.suites.investorbench.decisions import read_decisions
from bench.suites.investorbench.metrics import InvestorMetrics
from bench.suites.investorbench.paper import PAPER
from bench.suites.investorbench.returns import OPEN, TRADE, played, year_days
from bench.suites.suite import (
    Environment,
    Measure,
    Metric,
    Suite,
    SuiteError,
    SuiteMetrics,
    given,
)
from bench.task import LabelledCall, Task

_INFINITE = float("inf")
_paper = partial(Metric, source="arXiv 2412.18174")
_ours = partial(Metric, source="ours, beside the paper's")

TOOLS: Final = ("market_observe", "market_trade", "market_recall")

QUESTION = """\
Trade {symbols} in a recorded market from {first} to {last}, day by day; days from {test} count.
On each day, read what is known (market_observe), then decide (market_trade) with the date of that \
day: buy holds the asset until the next day's price, sell is short in it, hold has none of it. \
market_recall searches what was known on earlier days. Go on until a trade says that the market is \
over; then answer in one sentence. The aim is a high return for little risk."""


class InvestorBench(Suite):
    """Single assets, and all of a kind together in equal amounts, over the published days."""

    title = "InvestorBench"
    metrics = (
        _paper(
            "CR",
            "cumulative return: the sum of daily log returns",
            label="Cumulative return",
            low=-_INFINITE,
            high=_INFINITE,
            in_line=True,
        ),
        _paper(
            "SR",
            "Sharpe ratio: the return of a year by the volatility of a year",
            label="Sharpe ratio",
            low=-_INFINITE,
            high=_INFINITE,
            in_line=True,
        ),
        _paper("MDD", "maximum drawdown", label="Maximum drawdown", better="less"),
        _paper("AV", "annual volatility", label="Annual volatility", better="less", high=_INFINITE),
        _ours(
            "CR_above_hold",
            "cumulative return above that of holding, without costs: of Buy & Hold, or of equal "
            "weights in a portfolio",
            label="Above Buy & Hold",
            low=-_INFINITE,
            high=_INFINITE,
        ),
        _ours("win_rate", "days that gained, of those with a position", is_main=False),
        _ours(
            "turnover", "mean change of the position a day", better="less", is_main=False, high=2.0
        ),
        _ours("exposure", "days with a position", is_main=False),
    )
    measures = (
        *(Measure(metric.name, is_share=metric.is_share) for metric in metrics),
        Measure("reached_the_end", test=True, is_share=False),
    )
    groups: ClassVar[Mapping[str, str]] = {"id": "Task", "category": "Type of asset"}
    tabled = "id"
    paper = PAPER
    is_recorded = True
    reward = "CR"
    has_verdicts = False
    moving_tools = (TRADE,)
    limits: ClassVar[Mapping[str, float]] = {
        "rounds": 100_000,
        "calls": 200_000,
        "wall_s": 86_400.0,
    }

    @classmethod
    def read(cls, name: str, dataset: Path | None) -> Iterable[Task]:
        """A task for each file of the folder, and one for all assets of a kind together."""
        try:
            markets = read_markets(given(name, dataset, "folder", cls.paper))
        except MarketError as error:
            raise SuiteError(str(error)) from error
        kinds: dict[str, list[Market]] = {"stock": [], "crypto": [], "etf": []}
        for market in markets.values():
            kind = "etf" if market.symbol == "ETF" else "crypto" if market.is_crypto else "stock"
            kinds[kind].append(market)
        for kind, of_kind in kinds.items():
            for market in of_kind:
                yield _task([market], kind)
            if 1 < len(of_kind) <= MOST_ASSETS and _have_days(of_kind):
                yield _task(of_kind, f"{kind} portfolio")

    @classmethod
    def moves(
        cls, played: Sequence[tuple[str, dict[str, Any]]], task: Task
    ) -> Sequence[tuple[str, dict[str, Any]]]:
        """The trades of days on which each asset has one."""
        assets = task.id.count("+") + 1
        by_day = Counter(str(arguments.get("date")) for _, arguments in played)
        return [one for one in played if by_day[str(one[1].get("date"))] == assets]

    @property
    def gateway_settings(self) -> Mapping[str, Any]:
        return {"market": self.dataset}

    @property
    def gateway_health(self) -> Mapping[str, Any]:
        assert self.dataset is not None  # noqa: S101 - the tasks were read from it
        return {"market": digest_of(read_markets(self.dataset).values())}

    @classmethod
    def offered(cls, task: Task) -> Sequence[str]:  # noqa: ARG003
        return TOOLS

    @classmethod
    def environment(cls, task: Task) -> Environment:
        return Environment(OPEN, "market_close", TOOLS, dict(task.tools[0].arguments))

    @classmethod
    def new_metrics(cls) -> InvestorMetrics:
        return InvestorMetrics()

    @classmethod
    def measured(cls, record: EpisodeRecord, last_round: list[ToolCallRecord]) -> Measured:  # noqa: ARG003
        """An episode passes if it reached its last day."""
        found = played(record)
        if found is None:
            is_infrastructure = record.ending in (Ending.MODEL_ERROR, Ending.ENVIRONMENT_ERROR)
            return Measured(False, {"reached_the_end": 0.0}, is_infrastructure)
        return Measured(True, {**found.figures, "reached_the_end": 1.0})

    @classmethod
    def summary(cls, metrics: Mapping[str, Any]) -> str:
        return (
            f"{metrics['episodes']} episodes, {metrics['passed']} of them to their last day; "
            "figures are means over tasks of the median of their repeats"
        )

    @classmethod
    def new_charts(cls) -> InvestorCharts:
        return InvestorCharts()

    @classmethod
    def series(cls, record: EpisodeRecord) -> "array[float] | None":
        found = played(record)
        return None if found is None else array("d", found.returns)

    @classmethod
    def compare_series(
        cls, category: str, a: "Sequence[array[float]]", b: "Sequence[array[float]]"
    ) -> dict[str, Any]:
        """The differences in CR, SR, MDD and AV between the means of the repeats by day, with
        intervals from a bootstrap that draws the same days for both.
        """
        days = len(a[0])
        if any(len(one) != days for one in (*a, *b)) or not days:
            return {}
        sides = [[fmean(day) for day in zip(*repeats, strict=True)] for repeats in (b, a)]
        found = Bootstrap(year_days(category)).differences(*sides)
        return {
            name: one
            and {
                "difference": round(one[0], DIGITS),
                "interval": rounded(one[1]),
            }
            for name, one in found.items()
        }

    @classmethod
    def costly(cls, metrics: SuiteMetrics) -> dict[str, Any]:
        """`task_intervals`: by task, the 95 % intervals of CR, SR, MDD and AV."""
        assert isinstance(metrics, InvestorMetrics)  # noqa: S101 - `new_metrics` made them
        return {"task_intervals": metrics.intervals()}

    @classmethod
    def score_file(
        cls, file: Path, dataset: Path | None, *, with_intervals: bool
    ) -> list[dict[str, Any]]:
        """A row for each line of recorded decisions."""
        if dataset is None:
            raise SuiteError("recorded decisions want the market's folder: --dataset")
        try:
            rows = []
            for made in read_decisions(file, read_markets(dataset)):
                row = made.row()
                if with_intervals:
                    bootstrap = Bootstrap(made.market.year_days)
                    row["intervals"] = bootstrap.intervals([day.earned for day in made.earned])
                rows.append(row)
        except MarketError as error:
            raise SuiteError(str(error)) from error
        return rows


def _task(markets: Sequence[Market], kind: str) -> Task:
    first, test = _days(markets)
    symbols = [market.symbol for market in markets]
    opening = {
        "symbols": ",".join(symbols),
        "warm_up_from": first.isoformat(),
        "test_from": test.start.isoformat(),
        "test_to": test.end.isoformat(),
    }
    return Task(
        id="+".join(symbols),
        category=kind,
        question=QUESTION.format(
            symbols=" and ".join(symbols), first=first, test=test.start, last=test.end
        ),
        tools=(LabelledCall(name=OPEN, arguments=opening),),
        source_dataset=f"investorbench {digest_of(markets)}",
    )


def _have_days(markets: Sequence[Market]) -> bool:
    """Whether the markets have days in common, without which nobody can trade them together."""
    first, test = _days(markets)
    return first <= test.end and bool(common_days(markets, Window(first, test.end)))


def _days(markets: Sequence[Market]) -> tuple[Any, Window]:
    """The first day of the warm-up, and the test days: the published ones, or all days of markets
    that have none of those.
    """
    windows = markets[0].windows
    try:
        for market in markets:
            market.during(windows.test)
    except MarketError:
        first = max(market.days[0] for market in markets)
        return first, Window(first, max(first, min(market.days[-1] for market in markets)))
    return windows.warm_up.start, windows.test
