"""Works out, before a run starts, what it will request from its upstreams.

The agent acts as it will in the run; its calls are bound and counted, and nothing is sent. The
forecast is exact for agents whose calls don't depend on answers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bench.agents import Agent, Episode, Round
from bench.runs.driver import owed
from bench.suites.suite import Suite
from gateway import Result
from gateway.pipeline.bind import Binder, BoundCall, InvalidCall
from gateway.upstreams.hosts import host_of
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


async def needs(
    suite: Suite,
    agent: Agent,
    episodes: int,
    catalog: Catalog,
    left: Mapping[str, int],
    *,
    attempts: int,
    rounds: int,
) -> list[HostNeed]:
    """Needs by host, the largest first. A call is tried at most `attempts` times; `left` is by host
    what quotas still allow.
    """
    binder, keys = Binder(catalog), set[str]()
    hosts: dict[str, HostNeed] = {}
    for number, (task, repeat) in enumerate(owed(suite, episodes), 1):
        for bound in await _calls(agent, Episode(task, repeat, rounds_left=rounds), binder):
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
