"""What the head sends to its players. No secret is in it: each node has its own in its environment
or its settings file.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from bench.engines.cluster import EngineError
from bench.runs.run import RunPlan
from gateway.pipeline.bind import masked
from gateway.settings import GatewaySettings
from manifests import Catalog


@dataclass(frozen=True, slots=True)
class Work:
    """What all players of a run have in common. `plan` has the concurrency and the rate of starts
    of one player, and `settings` are those of an embedded gateway, which share limits among
    `players`.
    """

    plan: RunPlan
    settings: GatewaySettings
    catalog: Catalog
    players: int

    @classmethod
    def of(cls, plan: RunPlan, settings: GatewaySettings, catalog: Catalog, players: int) -> "Work":
        one = replace(
            plan,
            concurrency=-(-plan.concurrency // players),
            starts_per_s=plan.starts_per_s / players,
            agent=replace(plan.agent, options=_with_absolute_paths(plan.agent.options)),
        )
        return cls(one, without_secrets(settings), catalog, players)

    def settings_of(self, number: int) -> GatewaySettings:
        """The settings of the player of that number, with the secrets of its node. Raises
        `SettingsError`.
        """
        return with_own_secrets(self.settings).share(self.players, number % self.players)


def check_options(plan: RunPlan) -> None:
    """Raises `EngineError` where an option of the agent looks like a credential."""
    options = plan.agent.options
    if not is_dataclass(options):
        return
    given = {one.name: getattr(options, one.name) for one in fields(options)}
    hidden = masked(given)
    if names := [name for name, value in given.items() if value and hidden[name] != value]:
        raise EngineError(
            f"the agent's option {names[0]!r} looks like a credential, and options are sent "
            "through Ray; let the agent read it from an environment variable of each node"
        )


def without_secrets(settings: GatewaySettings) -> GatewaySettings:
    """The settings without secrets, with absolute paths."""
    changes: dict[str, Any] = {}
    for name, value in settings:
        if name in _secret(settings):
            changes[name] = GatewaySettings.model_fields[name].get_default(
                call_default_factory=True, validated_data={}
            )
        elif isinstance(value, Path):
            changes[name] = value.absolute()
    return settings.model_copy(update=changes)


def with_own_secrets(settings: GatewaySettings) -> GatewaySettings:
    """The settings with the secrets that this node has. Raises `SettingsError`."""
    own = GatewaySettings.read()
    return settings.model_copy(update={name: getattr(own, name) for name in _secret(own)})


def _secret(settings: GatewaySettings) -> Iterable[str]:
    """The settings that are secrets or hold some."""
    declared = {
        name
        for name, field in GatewaySettings.model_fields.items()
        if SecretStr.__name__ in str(field.annotation)
    }
    with_user = {name for name, value in settings if name.endswith("_url") and "@" in str(value)}
    return declared | with_user


def _with_absolute_paths(options: Any) -> Any:
    """The options of an agent whose process has another working directory."""
    if not is_dataclass(options) or isinstance(options, type):
        return options
    given = {one.name: getattr(options, one.name) for one in fields(options) if one.init}
    paths = {name: path.absolute() for name, path in given.items() if isinstance(path, Path)}
    return replace(options, **paths)
