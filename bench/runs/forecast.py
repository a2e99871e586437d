"""Works out, before a run starts, what it will request from its upstreams.

The agent acts as it will in the run; its calls are bound and counted, and nothing is sent. The
forecast is exact for agents whose calls don't depend on answers. Of models it says the most that
agent and judge request.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.agents import Agent, Episode, Round
from bench.agents.conversation import FunctionTools
from bench.agents.declaration import AgentSettingsError
from bench.agents.registry import open_agent
from bench.judges.judge import JudgeParts
from bench.models.client import RETRIES
from bench.models.need import BYTES_A_CHARACTER, Amounts, ModelBound, ModelNeed, Within
from bench.models.prices import Price, Prices
from bench.runs.driver import owed
from bench.runs.run import RunPlan, made_ready, names_offered
from gateway import GatewaySettings, Result
from gateway.pipeline.bind import Binder, BoundCall, InvalidCall
from gateway.upstreams.hosts import host_of, plans_of
from gateway.upstreams.quota import left_by_host
from manifests import Catalog

PLANNED = Result("", "planned")


@dataclass(slots=True)
class HostNeed:
    """Requests that a run needs of one host.

    `calls` is how many calls bind to the host, `distinct` how many of them differ: the number of
    requests if every answer is cached and the first attempt succeeds. `most` is the number if none
    is cached and every attempt is used. `left` is what quotas still allow, None without a quota.
    `runs_out` and `runs_out_at_most` are the first episodes, from 1, that exceed it in these two
    cases.
    """

    host: str
    calls: int = 0
    distinct: int = 0
    most: int = 0
    left: int | None = None
    runs_out: int | None = None
    runs_out_at_most: int | None = None


async def forecast(
    plan: RunPlan, settings: GatewaySettings, catalog: Catalog
) -> tuple[list[HostNeed] | None, list[ModelBound]]:
    """What a run will request of each host, None if that depends on a model, and of each model.
    Raises `SuiteError`, and `AgentSettingsError` for an agent or a judge that does not say it.
    """
    kind = plan.agent.type
    if kind.reads_answers and kind.need is None:
        text = "agents whose calls do not depend on answers, and for llm, fatr, finmem"
        raise AgentSettingsError(f"--plan is for {text}")
    settings, catalog = made_ready(plan, settings, catalog)
    models = _model_bounds(plan, catalog)
    if kind.reads_answers:
        return None, models
    left = left_by_host(settings.ledger_path, settings.secrets, plans_of(settings, catalog))
    async with open_agent(plan.agent, catalog, is_forecast=True) as agent:
        return await _host_needs(plan, agent, catalog, left, settings.retries + 1), models


def _model_bounds(plan: RunPlan, catalog: Catalog) -> list[ModelBound]:
    """What a run requests of the agent's model and of the judge's; empty without any."""
    agent, judge = plan.agent, plan.judge
    of_agent, of_judge = agent.type.need, judge.type.need if judge.type else None
    parts = JudgeParts(catalog, None, judge.repeats, judge.protocol)
    asks, judges = [ModelNeed()] * 2, [ModelNeed()] * 2
    repeats, further = divmod(plan.episodes, len(plan.suite.tasks))
    for number, within in enumerate(_bounds_of(plan, catalog)):
        episodes = repeats + (number < further)
        for place, one in enumerate((within, within.estimated())):
            if of_agent is not None:
                asks[place] += of_agent(agent.options, one).times(episodes)
            if of_judge is not None:
                judges[place] += of_judge(parts, one).times(episodes)
    model, found = agent.model, list[ModelBound]()
    answer = _max_tokens(model.body) if model is not None else None
    if model is not None:
        if of_agent is None:
            raise AgentSettingsError(f"the agent {agent.name} says no bound of its requests")
        why = [] if answer else ["no bound of tokens without --max-tokens"]
        if asks[0].text_bytes is None:
            why.append(f"no bound of the texts that {agent.name} reads")
        read = (answer, answer)
        found.append(_bound("agent", model.model, asks, read, answer, why, plan.prices))
    if judge.needs_model and judge.type is not None:
        if of_judge is None:
            raise AgentSettingsError(f"the judge {judge.type.name} says no bound of its requests")
        own = _max_tokens(judge.body)
        why = (
            [] if own else ["no bound of output tokens without --judge-body '{\"max_tokens\": N}'"]
        )
        if not answer and judges[0].answers:
            lacks = "without --max-tokens" if model else f"of {agent.name}"
            why.append(f"no bound of the answers that are judged {lacks}")
        read = (answer and answer * TOKENS_AGAIN, answer)
        found.append(_bound("judge", judge.model or "", judges, read, own, why, plan.prices))
    return found


def _bounds_of(plan: RunPlan, catalog: Catalog) -> Iterator[Within]:
    """What bounds an episode of each task. Where tools are retrieved, the largest are offered."""
    suite, limits = plan.suite, plan.limits
    tools = FunctionTools(catalog.cards, inject=True)
    sizes = {tool.name: len(tools.encoded([tool])[0]) + 1 for tool in catalog}
    retrieved = sum(sorted(sizes.values(), reverse=True)[: plan.top_k or 0])
    offers = suite.offers_tools and plan.agent.type.reads_answers
    named = names_offered(suite, catalog) if offers else {}
    if plan.retrieval == "all":
        retrieved = sum(sizes.values())
    for task in suite.tasks:
        names = named.get(task.id, [] if retrieved else [call.name for call in task.tools])
        by_name = sum(sizes[name] for name in {*names} if name in sizes)
        environment = suite.environment(task)
        opening = {**environment.arguments, **plan.environment} if environment else None
        read = limits.output_chars or limits.output_tokens  # a token may be many characters
        yield Within(
            task,
            limits.rounds,
            limits.calls,
            by_name if task.id in named else retrieved or by_name,
            read and read * BYTES_A_CHARACTER,
            opening,
        )


TOKENS_AGAIN = 4
"""A token of the agent's model is at most so many of the judge's, also in JSON."""


def _max_tokens(body: Mapping[str, Any]) -> int | None:
    """The most tokens of one answer; None without a bound."""
    given = [body.get(name) for name in ("max_tokens", "max_completion_tokens")]
    known = [one for one in given if type(one) is int and one > 0]
    return max(known, default=None)


def _bound(
    whose: str,
    model: str,
    needs: Sequence[ModelNeed],
    read: tuple[int | None, int | None],
    answer: int | None,
    why: list[str],
    prices: Prices | None,
) -> ModelBound:
    """The bound and the estimate of two needs, where answers of so many tokens are `read`, and an
    `answer` of so many is given.
    """
    price = prices.of_model(model) if prices else None
    most, estimate = (
        _amounts(need, tokens, answer, price, a_token)
        for need, tokens, a_token in zip(needs, read, (1, BYTES_A_TOKEN), strict=True)
    )
    if prices and price is None:
        why = [*why, f"no price of {model}"]
    attempts = most.requests * (RETRIES + 1)
    currency = prices.currency if prices else None
    return ModelBound(whose, model, most, attempts, estimate, currency, why)


BYTES_A_TOKEN = 4
"""Of most texts, for the estimate."""


def _amounts(
    need: ModelNeed, read: int | None, answer: int | None, price: Price | None, bytes_a_token: int
) -> Amounts:
    into = None if need.text_bytes is None else need.text_bytes // bytes_a_token
    if need.answers:
        into = None if into is None or read is None else into + need.answers * read
    out = None if answer is None else need.requests * answer
    if price is None or into is None or out is None:
        return Amounts(need.requests, into, out, None)
    return Amounts(need.requests, into, out, price.most(into, out))


async def _host_needs(
    plan: RunPlan, agent: Agent, catalog: Catalog, left: Mapping[str, int], attempts: int
) -> list[HostNeed]:
    """Needs by host, the largest first. A call is tried at most `attempts` times; `left` is by host
    what quotas still allow.
    """
    binder, keys = Binder(catalog), set[str]()
    hosts: dict[str, HostNeed] = {}
    for number, (task, repeat) in enumerate(owed(plan.suite, plan.episodes), 1):
        episode = Episode(task, repeat, rounds_left=plan.limits.rounds)
        for bound in await _calls(agent, episode, binder):
            host = host_of(bound.plan.manifest)
            need = hosts.setdefault(host, HostNeed(host, left=left.get(host)))
            need.calls += 1
            need.most += attempts
            need.distinct += bound.key not in keys
            keys.add(bound.key)
            if need.left is not None and need.runs_out is None and need.distinct > need.left:
                need.runs_out = number
            if need.left is not None and need.most > need.left:
                need.runs_out_at_most = need.runs_out_at_most or number
    return sorted(hosts.values(), key=lambda need: (-need.calls, need.host))


async def _calls(agent: Agent, episode: Episode, binder: Binder) -> Iterable[BoundCall]:
    bound: list[BoundCall] = []
    while len(episode.history) < episode.rounds_left:
        try:
            turn = await agent.act(episode)
        except Exception:  # noqa: BLE001 - in the run it ends only its own episode
            break
        if not turn.calls:
            break
        for call in turn.calls:
            if call.problem is not None:
                continue
            try:
                bound.append(binder.bind(call.tool, call.arguments))
            except InvalidCall:
                continue  # the gateway would reject it without a request
        episode.history.append(Round(turn, tuple(PLANNED for _ in turn.calls)))
    return bound
