"""`finbench run`: episodes of a suite, from settings to a run directory."""

import asyncio
import sys
import time
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, get_type_hints

import click

from bench.cli.options import (
    JsonObject,
    Number,
    beside,
    by_groups,
    catalog_in,
    check_groups,
    choosing,
    headers_of,
    is_given,
    judge_settings,
    judging,
    pairs,
    reading,
    share,
    suite_of_chosen,
    whole,
    with_cards,
    with_dataset,
    with_embeddings,
    with_manifests,
    with_prices,
)
from gateway.cli.options import (
    OutPath,
    echo_json,
    ended,
    modes,
    read_settings,
    run,
    simulation,
    together,
    told_abort,
)
from gateway.compress.budget import LIMITS
from manifests.common.terminal import echo

if TYPE_CHECKING:
    from bench.agents.registry import AgentSettings
    from bench.judges.registry import JudgeSettings
    from bench.runs.about import RunInfo
    from bench.runs.driver import Limits
    from bench.runs.resume import Resuming
    from bench.runs.run import RunPlan
    from bench.suites.suite import Suite
    from gateway.settings import GatewaySettings
    from manifests import Catalog

_agent = together(
    click.option(
        "--agent",
        default="scripted",
        show_default=True,
        callback=beside,
        help="scripted, replay, solver, llm, fatr; in markets buy-and-hold, random, momentum, "
        "finmem; `module:Name`, or `python:module:factory` for a function.",
    ),
    click.option(
        "--agent-option",
        "agent_options",
        multiple=True,
        metavar="NAME=VALUE",
        help="An option of the agent, as JSON or text; repeatable.",
    ),
    click.option("--seed", type=whole(), default=0, show_default=True),
    click.option(
        "--think-s", type=Number(min=0), default=0.0, help="scripted, solver: seconds of thinking."
    ),
    share("--no-call-rate", 0.10, "scripted: episodes without a call."),
    share("--wrong-tool-rate", 0.08, "scripted: episodes with a wrong tool."),
    share("--bad-arguments-rate", 0.12, "scripted: episodes with bad arguments."),
    click.option(
        "--trace",
        type=click.Path(exists=True, path_type=Path),
        help="replay: the run directory or trace file to play.",
    ),
    click.option("--model", metavar="NAME", help="llm, fatr, finmem: the model."),
    click.option(
        "--base-url", metavar="URL", help="llm, fatr, finmem: an OpenAI-compatible endpoint."
    ),
    click.option("--temperature", type=Number(min=0), help="Sent to the model only if given."),
    click.option("--top-p", type=Number(0, 1), help="The same."),
    click.option("--max-tokens", type=whole(1), help="Limit for one answer of the model."),
    click.option("--max-completion-tokens", type=whole(1), help="The same, in the newer field."),
    click.option("--reasoning-effort", metavar="LEVEL", help="Such as low, medium, high."),
    click.option(
        "--body",
        type=JsonObject(),
        default="{}",
        help="Further fields of each request to the model. --seed is one of them if it is given.",
    ),
    click.option(
        "--header",
        multiple=True,
        metavar="NAME=VARIABLE",
        help="A header of these requests, with the value of an environment variable; repeatable.",
    ),
    click.option("--stream", is_flag=True, help="Stream the model's answers."),
    click.option("--no-inject", is_flag=True, help="llm, fatr: leave out the finance tags."),
    click.option(
        "--hard-filter", is_flag=True, help="fatr: drop tools that can't meet the constraints."
    ),
)

_limits = together(
    click.option("--max-rounds", type=whole(0), help="Default: 5, or what the suite needs."),
    click.option("--max-calls", type=whole(1), help="Default: 80, or what the suite needs."),
    click.option(
        "--max-wall-s", type=Number(min=0.001), help="Default: 600, or what the suite needs."
    ),
    click.option("--max-episode-tokens", type=whole(1)),
    click.option(
        "--max-model-errors",
        type=whole(0),
        default=20,
        show_default=True,
        help="So many errors of a model in a row that are the same end the run; 0: none do.",
    ),
    click.option(
        "--max-output-chars",
        type=click.IntRange(*LIMITS["chars"]),
        help="Shorten the answers of tools to what the question needs. llm, fatr: 500 by default.",
    ),
    click.option(
        "--max-output-tokens", type=click.IntRange(*LIMITS["tokens"]), help="The same, in tokens."
    ),
)


@click.command("run")
@click.argument("suite", callback=beside)
@with_dataset
@choosing
@with_manifests
@with_cards
@_agent
@click.option(
    "--top-k",
    type=whole(0),
    help="Number of tools to retrieve and offer; 0: the labelled tools of the task. Default: 20; "
    "scripted and replay get none.",
)
@click.option(
    "--retrieval",
    type=click.Choice(["dense", "bm25", "fused", "gold", "all"]),
    help="How the offered tools are found: by vectors, by words, by both; gold: the labelled ones; "
    "all: every tool. Default: as the gateway searches.",
)
@with_embeddings
@judging
@_limits
@click.option("--gateway", default="embedded", show_default=True, help="`embedded` or a URL.")
@click.option("--episodes", type=whole(1), help="Default: one per task.")
@click.option("--repeats", type=whole(1), help="Episodes of each task, in place of --episodes.")
@click.option(
    "--environment",
    "environment",
    multiple=True,
    metavar="NAME=VALUE",
    help="investorbench: an argument of market_open, such as cost_bp=5 or test_to=2021-01-29; "
    "repeatable.",
)
@click.option("--concurrency", type=whole(1), default=100, show_default=True)
@click.option("--starts-per-s", type=Number(min=0.1), default=10_000.0, show_default=True)
@click.option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="local: in this process. ray: on the Ray cluster at RAY_ADDRESS, or all cores of this "
    "machine; needs the extra `ray`.",
)
@click.option("--players", type=whole(1), help="ray: processes. Default: one for each CPU.")
@click.option("--dashboard", is_flag=True, help="ray: with its dashboard, if it is started here.")
@click.option("--out", type=OutPath(), help="Run directory.")
@click.option(
    "--no-transcripts",
    is_flag=True,
    help="Don't keep what goes to models and comes from them (transcripts.jsonl).",
)
@click.option("--resume", is_flag=True, help="Continue the run in --out.")
@click.option(
    "--failed-too",
    is_flag=True,
    help="With --resume: repeat episodes that failed only because of a quota, the gateway or the "
    "model's endpoint.",
)
@click.option(
    "--accept-changes",
    is_flag=True,
    help="With --resume: go on although the run's files, your own code or the judge's endpoint "
    "were changed.",
)
@click.option(
    "--plan",
    "only_plan",
    is_flag=True,
    help="Only compute the requests to each host and model.",
)
@with_prices
@by_groups
@reading
@click.option("--json", "as_json", is_flag=True, help="Print the metrics as JSON only.")
@modes
@simulation
@click.pass_context
def run_suite(context: click.Context, /, **options: Any) -> None:
    """Run the episodes of SUITE and stream calls, episodes and metrics into a run directory."""
    from bench.runs.resume import Resuming

    given = SimpleNamespace(**options, brief=False)
    if (given.resume and given.out is None) or (
        (given.failed_too or given.accept_changes) and not given.resume
    ):
        text = "--resume wants --out RUN_DIR, --failed-too and --accept-changes want --resume"
        raise click.UsageError(text)
    made = made_of(context, given)
    if given.only_plan:
        run(lambda: _forecast(made, given.as_json))
    name = given.suite.replace(":", "-")
    folder = given.out or Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    resuming = Resuming(given.failed_too, given.accept_changes) if given.resume else None
    sys.exit(play(given, made, folder, resuming))


@dataclass(frozen=True, slots=True)
class Made:
    """What the options of a run make: its plan, the settings of its gateway, its tools."""

    plan: "RunPlan"
    settings: "GatewaySettings"
    catalog: "Catalog"


def made_of(context: click.Context, given: SimpleNamespace) -> Made:
    """What the options make; a usage error for one that does not fit the others."""
    if given.engine != "ray" and (given.players is not None or given.dashboard):
        raise click.UsageError("--players and --dashboard are for --engine ray only")
    if {"@", "?", "#"}.intersection(given.gateway):  # the URL is written to `run.json`
        raise click.UsageError("--gateway wants a URL without credentials or query")
    plan = plan_of(context, given)
    of_gateway = {name: getattr(given, name) for name in _OF_GATEWAY}
    flags = [_flag(name) for name in sorted(of_gateway) if of_gateway[name] is not None]
    if given.gateway != "embedded" and flags:
        text = f"{', '.join(flags)}: for the embedded gateway only; `finport serve` takes them"
        raise click.UsageError(text)
    embedder = {"embeddings_model": given.embedding_model, "embeddings_url": given.embedding_url}
    settings = read_settings(**of_gateway, **embedder)
    catalog = catalog_in(given.manifests, given.cards)
    if plan.retrieval in ("dense", "fused") and settings.embeddings_model is None:
        raise click.UsageError(f"--retrieval {plan.retrieval} wants --embedding-model")
    return Made(plan, settings, catalog)


def play(
    given: SimpleNamespace, made: Made, folder: Path, resuming: "Resuming | None" = None
) -> int:
    """Play a run into `folder`, and return its exit code; the results are told `brief` or whole."""
    plan = made.plan
    asked = plan.agent.model
    if asked is not None and plan.judge.needs_model and asked.model == plan.judge.model:
        text = f"{asked.model} judges its own answers: name another one with --judge-model"
        echo(f"finbench: {text}", err=True)
    if plan.judge.needs_model and not any(task.answer for task in plan.suite.tasks):
        text = "its tasks have no gold answers, so the judge scores none"
        echo(f"finbench: {given.suite}: {text}", err=True)
    for note in plan.suite.notes:
        echo(f"finbench: {given.suite}: {note}", err=True)
    how = {"settings": made.settings, "catalog": made.catalog, "resuming": resuming}
    with told_abort(lambda: f"finbench: native code aborted the process; {_left_in(folder)}"):
        return ended(
            lambda: _run(given, plan, folder, **how),
            interrupted=f"finbench: ending the run in {folder}; --resume goes on.",
        )


_RATES = ("no_call_rate", "wrong_tool_rate", "bad_arguments_rate")
_OF_JUDGES = (
    *("judge_model", "judge_base_url", "judge_repeats", "judge_body", "judge_header"),
    "judge_protocol",
)
_FIELDS = ("temperature", "top_p", "max_tokens", "max_completion_tokens", "reasoning_effort")
_OF_MODELS = (*_FIELDS, "body", "header", "stream")
_OF_SIMULATION = ("seed", "now", "latency_s", "failure_rate", "hang_rate", "lies", "lie_kinds")
_OF_GATEWAY = (
    *("upstream", "mode", "snapshot", "market"),
    *(f"simulated_{name}" for name in _OF_SIMULATION),
)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def plan_of(context: click.Context, given: SimpleNamespace) -> "RunPlan":
    """The plan from the options; a usage error for one that does not fit the others."""
    from bench.agents.declaration import AgentSettingsError
    from bench.agents.registry import TOP_K
    from bench.runs.run import RunPlan
    from bench.suites import load_suite
    from bench.suites.suite import SuiteError

    try:
        suite = suite_of_chosen(load_suite(given.suite, given.dataset), vars(given))
        judge = judge_settings(vars(given), type(suite))
        agent = _agent_settings(context, given, judge)
    except (SuiteError, AgentSettingsError) as error:
        raise click.UsageError(str(error)) from error
    if given.repeats is not None and given.episodes is not None:
        raise click.UsageError("give --episodes or --repeats, not both")
    check_groups(given.by, type(suite))
    environment = pairs("--environment", given.environment)
    if environment and all(suite.environment(task) is None for task in suite.tasks):
        raise click.UsageError(f"--environment: the suite {given.suite} has no environment")
    top_k, retrieval = given.top_k, given.retrieval or ""
    if (top_k is not None or retrieval) and suite.offers_tools:
        option = "--top-k" if top_k is not None else "--retrieval"
        raise click.UsageError(f"{option}: the suite {given.suite} says which tools are offered")
    if retrieval in ("gold", "all"):
        if top_k:
            raise click.UsageError(f"--top-k is not for --retrieval {retrieval}")
        top_k = 0
    if top_k is None and agent.type.reads_answers and not suite.offers_tools:
        top_k = TOP_K
    return RunPlan(
        suite=suite,
        gateway=given.gateway,
        episodes=given.episodes or (given.repeats or 1) * len(suite.tasks),
        concurrency=given.concurrency,
        agent=agent,
        judge=judge,
        limits=_limits_of(given, suite),
        starts_per_s=given.starts_per_s,
        top_k=top_k,
        retrieval=retrieval,
        environment=environment,
        transcripts=not given.no_transcripts,
        prices=given.prices,
        max_model_errors=given.max_model_errors,
    )


def _limits_of(given: SimpleNamespace, suite: "Suite") -> "Limits":
    from bench.runs.driver import Limits

    chars, tokens = given.max_output_chars, given.max_output_tokens
    if chars is not None and tokens is not None:
        raise click.UsageError("give --max-output-chars or --max-output-tokens, not both")
    limits: dict[str, Any] = dict(suite.limits)
    for name in ("rounds", "calls", "wall_s"):
        if (limit := getattr(given, f"max_{name}")) is not None:
            limits[name] = limit
    return Limits(
        **limits, tokens=given.max_episode_tokens, output_chars=chars, output_tokens=tokens
    )


def _agent_settings(
    context: click.Context, given: SimpleNamespace, judge: "JudgeSettings"
) -> "AgentSettings":
    """Raises `AgentSettingsError`, also for a given option that would have no effect."""
    from bench.agents.declaration import AgentSettingsError
    from bench.agents.registry import AGENTS, AgentSettings, agent_named, option_names
    from bench.environment import MODEL_KEY
    from bench.models.settings import ModelSettings, check_url

    kind = agent_named(given.agent)
    hints = get_type_hints(kind.options)
    texts = frozenset(name for name, hint in hints.items() if hint is str)
    own = pairs("--agent-option", given.agent_options, texts)
    rates = {rate.removesuffix("_rate"): getattr(given, rate) for rate in _RATES}
    options = {
        "think_s": (("think_s",), given.think_s),
        "error_rates": (_RATES, rates),
        "trace": (("trace",), given.trace),
        "inject": (("no_inject",), not given.no_inject),
        "hard_filter": (("hard_filter",), given.hard_filter),
    }
    for option, (names, value) in options.items():
        flags = [_flag(name) for name in names if is_given(context, name)]
        if flags and option not in option_names(kind):
            takers = [one for one in AGENTS if option in option_names(agent_named(one))]
            raise AgentSettingsError(f"{flags[0]} is for --agent {' or '.join(takers)} only")
        if flags:
            own[option] = value
    model, base_url = given.model, given.base_url
    try:
        if base_url:
            check_url("--base-url", base_url, MODEL_KEY)
    except ValueError as error:
        raise AgentSettingsError(str(error)) from error
    if not kind.needs_model:
        asking = " or ".join(name for name in AGENTS if agent_named(name).needs_model)
        for name in _OF_MODELS:
            if is_given(context, name):
                raise AgentSettingsError(f"{_flag(name)} is for --agent {asking} only")
        if (model or base_url) and not judge.needs_model:
            text = f"--model and --base-url are for --agent {asking}, or --judge llm"
            raise AgentSettingsError(text)
    if not judge.needs_model and any(is_given(context, name) for name in _OF_JUDGES):
        raise AgentSettingsError("--judge-model and the like are for a judge with a model")
    settings = None
    if model and base_url and kind.needs_model:
        body, headers = _body(context, given), headers_of("--header", given.header)
        try:
            settings = ModelSettings(model, base_url, body, headers, given.stream)
        except ValueError as error:
            raise AgentSettingsError(str(error)) from error
    return AgentSettings.of(given.agent, own, seed=given.seed, model=settings)


def _body(context: click.Context, given: SimpleNamespace) -> dict[str, Any]:
    """The fields of a request to the model that options ask for."""
    body: dict[str, Any] = dict(given.body)
    for name in _FIELDS:
        value = getattr(given, name)
        if value is not None and name in body:
            raise click.UsageError(f"{name} is in --body and in {_flag(name)}; give it once")
        if value is not None:
            body[name] = value
    if is_given(context, "seed"):
        body.setdefault("seed", given.seed)
    return body


async def _run(given: SimpleNamespace, plan: "RunPlan", folder: Path, **how: Any) -> int:
    """Run the plan in this process, or on Ray."""
    import orjson

    from bench.agents.declaration import AgentSettingsError
    from bench.cli.tables import closing, if_seen, report
    from bench.client import GatewayUnreachableError
    from bench.engines.cluster import EngineError
    from bench.judges.registry import JudgeSettingsError
    from bench.models.prices import amount_text
    from bench.runs.about import RunInfo
    from bench.runs.directory import RunDirectoryError
    from bench.runs.driver import ModelDownError
    from bench.runs.run import run as run_plan
    from bench.runs.silence import silences
    from bench.suites.suite import SuiteError
    from cache import SnapshotError
    from gateway.trace import TraceError

    faults = (RunDirectoryError, SnapshotError, GatewayUnreachableError, EngineError, TraceError)
    as_json = given.as_json
    if given.engine == "ray":
        from bench.engines.run import on_ray

        how["engine"] = partial(on_ray, players=given.players, dashboard=given.dashboard)
    try:
        apart = as_json and given.engine == "ray"  # which prints notes
        with redirect_stdout(sys.stderr if apart else sys.stdout):
            about = await run_plan(plan, folder, show=not as_json, **how)
    except (*faults, OSError) as error:
        left = f"; {_left_in(folder)}" if isinstance(error, TraceError) else ""
        echo(f"finbench: {error}{left}", err=True)
        return 1
    except ModelDownError as error:
        on = f"once it answers, --resume --failed-too goes on with the run in {folder}"
        echo(f"finbench: {error}; {on}", err=True)
        return 1
    except (AgentSettingsError, JudgeSettingsError, SuiteError) as error:  # before any episode
        echo(f"finbench: {error}", err=True)
        return 2
    except asyncio.CancelledError:
        echo(f"finbench: interrupted; {_left_in(folder)}", err=True)
        raise
    metrics = orjson.loads((folder / "metrics.json").read_bytes())
    silent = [*silences(plan, metrics, about)]
    if given.brief:
        money = _money_of(metrics, about).get("money", {})
        known = [amount for whose, amount in money.items() if whose != "currency"]
        cost = ""
        if known:
            cost = "money unknown" if None in known else amount_text(sum(known))
            cost = f", {cost} {money['currency']}"
        echo(f"{about.episodes} episodes in {about.took_s:.1f} s{cost}: {folder}", err=as_json)
    elif as_json:
        facts = {"digest": about.digest, "snapshot": about.snapshot}
        echo_json({**metrics, **facts, **_money_of(metrics, about)})
    else:
        with if_seen():
            report(type(plan.suite), metrics, about, given.reading, given.by)
            closing(about, folder, driver=about.driver)
    by = RunInfo.read(folder).answered_by
    same = {*by.get("agent", ())} & {*by.get("judge", ())}
    if same and plan.judge.model != about.model:
        text = f"{', '.join(sorted(same))} answered for the agent and for the judge"
        echo(f"finbench: {text}: the model judges its own answers", err=True)
    if (why := about.gateway_calls.get("no_streams")) is not None and not silent:
        echo(f"finbench: each call was a request of its own, which is slower: {why}", err=True)
    for text in silent:
        echo(f"finbench: {text}", err=True)
    return 1 if silent else 0


def _money_of(metrics: dict[str, Any], about: "RunInfo") -> dict[str, Any]:
    """What the models of the run cost, where prices are known; None is unknown."""
    if about.prices is None:
        return {}
    money = {whose: about.prices.money(metrics, whose) for whose in ("agent", "judge")}
    amounts = {side: one.amount for side, one in money.items() if one is not None}
    return {"money": {"currency": about.prices.currency, **amounts}}


def _left_in(folder: Path) -> str:
    if (folder / "run.json").exists():
        return f"what was finished is in {folder}, --resume goes on"
    return f"nothing was finished, so nothing is left in {folder}"


async def _forecast(made: Made, as_json: bool) -> int:
    """Print the most that a run will request of each host and model. Exit code 1 if a quota would
    run out.
    """
    from bench.agents.declaration import AgentSettingsError
    from bench.cli.tables import bound_table, plan_table
    from bench.runs.forecast import forecast
    from bench.suites.suite import SuiteError

    try:
        hosts, models = await forecast(made.plan, made.settings, made.catalog)
    except (AgentSettingsError, SuiteError) as error:
        echo(f"finbench: {error}", err=True)
        return 2
    calls = made.plan.episodes * made.plan.limits.calls
    told = None if hosts is None else [asdict(need) for need in hosts]
    if as_json and models:
        of_models = [asdict(bound) for bound in models]
        echo_json({"hosts": told, "calls": calls, "models": of_models})
    elif as_json:
        echo_json(told)
    else:
        if hosts is None:
            echo(f"calls of tools: at most {calls:,}; which ones depends on the model")
        else:
            plan_table(hosts)
        if models:
            bound_table([("", bound) for bound in models])
    return 1 if any(need.runs_out for need in hosts or ()) else 0
