"""The gateway's settings.

Environment `FINPORT_*` overrides the file of `gateway/settings_file.py`, which overrides the
defaults below.
"""

import re
import shlex
from contextlib import suppress
from datetime import date
from hashlib import blake2b
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from platformdirs import user_cache_path, user_config_path
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    NonNegativeInt,
    PrivateAttr,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from gateway.compress.budget import DEFAULT_ENCODING, LIMITS, Encoding
from gateway.context import StandInUse
from gateway.environment import check_environment
from gateway.settings_file import CONFIG, SettingsError, read_settings_file
from gateway.sharing.connection import address_of
from manifests import PlanLimits
from manifests.common.nearest import did_you_mean
from manifests.common.origin import LAUNCHER, is_url
from manifests.providers import ProviderSettings

__all__ = ["GatewaySettings", "HostSettings", "Mode", "SettingsError"]

PREFIX = "FINPORT_"

MiB = 2**20
DAY_S = 86_400.0
MOST = 2**53
MOST_PER_DAY = 10**12

WORLD = 2
"""The version of the simulated market, so that its module need not be imported; a test compares."""

SIMULATED_SECRET = "no-key-of-the-simulated-upstream"  # noqa: S105 - it opens nothing


def _base_url(url: str) -> str:
    """Check a URL and remove a slash at its end."""
    is_whole = False
    with suppress(ValueError):
        parts = urlsplit(url)
        has_host = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        is_whole = bool(has_host) and url.isprintable() and not parts.query
    if not is_whole:
        raise ValueError("must be of the form http://HOST:PORT")
    return url.rstrip("/")


def _header(key: SecretStr) -> SecretStr:
    text = key.get_secret_value()
    if not (text.isascii() and text.isprintable()):
        raise ValueError("a key holds a character that no header can carry")
    return key


def _metrics_key(key: SecretStr | None) -> SecretStr | None:
    """Treat an empty key as none: a request could give it without knowing it."""
    if key is None or not (text := key.get_secret_value().strip()):
        return None
    _header(key)
    return SecretStr(text)


def _redis_url(url: SecretStr | None) -> SecretStr | None:
    """Check the form; the text of a refusal has no part of the URL."""
    if url is None or not url.get_secret_value():
        return None
    address_of(url.get_secret_value())
    if find_spec("redis") is None:
        raise ValueError("needs redis-py: pip install 'finport[redis]'")
    return url


def _name_of(origin: str) -> str:
    """The name of a provider that only its file or URL is known of."""
    host = urlsplit(origin).hostname if is_url(origin) else None
    words = re.findall(r"[A-Za-z0-9_-]+", host or Path(origin.rsplit(maxsplit=1)[-1]).stem)
    return "-".join(words)[:60] or "provider"


def _mcp_origin(origin: str) -> tuple[str, dict[str, object]]:
    """The name of the provider that a URL or command of an MCP server is, and its fields. A program
    names it, or what an interpreter or a launcher runs; no argument does, which may be a secret.

    Raises `ValueError`.
    """
    if is_url(origin):
        return _name_of(origin), {"mcp": origin}
    command = shlex.split(origin)
    named = command[:1]
    if named and LAUNCHER.fullmatch(Path(named[0]).name):
        named = [word for word in command[1:] if not word.startswith("-")][:1] or named
    return _name_of(named[0].replace(" ", "-") if named else ""), {"command": command}


def mcp_provider(origin: str, **fields: object) -> tuple[str, ProviderSettings]:
    """The provider that a URL or command of an MCP server is, and its name. Raises `ValueError`."""
    name, server = _mcp_origin(origin)
    return name, ProviderSettings.model_validate({**server, **fields})


def _split_by_commas(value: Any) -> Any:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


Mode = Literal["live", "record", "replay", "offline"]

_BaseUrl = Annotated[str, AfterValidator(_base_url)]
_Keys = Annotated[
    tuple[Annotated[SecretStr, AfterValidator(_header)], ...],
    *(NoDecode, BeforeValidator(_split_by_commas)),
]
_Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split_by_commas)]
_Paths = Annotated[tuple[Path, ...], NoDecode, BeforeValidator(_split_by_commas)]
_ProviderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
_Seconds = Annotated[float, Field(gt=0, le=DAY_S)]
_SecondsOrZero = Annotated[float, Field(ge=0, le=DAY_S)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Count = Annotated[int, Field(ge=1)]

_SHARED = (
    *("max_connections", "max_concurrency_per_host", "max_queue_per_host", "max_pending_calls"),
    *("akshare_workers", "memory_bytes", "market_sessions"),
)
"""Limits that each process applies by itself, so that each of several has its part."""


OF_PROVIDERS = ("catalog", "providers", "tools", "manifests", "openapi", "mcp", "hosts")
"""Settings that a reload reads anew."""


class HostSettings(PlanLimits):
    """Settings for one upstream host, for RapidAPI per key, which override manifests."""

    concurrency: _Count | None = Field(default=None, description="Calls under way there at once.")
    price_per_request: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="What a request costs, in `currency`."
    )


class GatewaySettings(BaseSettings):
    """What an operator may set. Times are in seconds, sizes in bytes."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", hide_input_in_errors=True)

    upstream: Literal["live", "simulated"] = Field(
        default="live", description="The real upstreams, or a local simulation of them."
    )
    mode: Mode = Field(default="live", description="Where answers come from.")
    snapshot: Path | None = Field(
        default=None,
        description="The snapshot to record, or to answer from in the other modes than live.",
    )
    rapidapi_keys: _Keys = Field(default=(), description="Keys of RapidAPI, separated by commas.")
    credentials: dict[str, SecretStr] = Field(
        default_factory=dict, description="Credentials of upstreams, by host."
    )
    rapidapi_base_url: _BaseUrl | None = Field(
        default=None, description="Where requests to RapidAPI are sent, in place of its hosts."
    )
    akshare_base_url: _BaseUrl | None = Field(
        default=None, description="Where requests of AkShare are sent, in place of their hosts."
    )

    api_keys: _Keys = Field(
        default=(),
        description="Keys of the gateway's clients; without any, only loopback is served.",
    )
    metrics_key: Annotated[SecretStr | None, AfterValidator(_metrics_key)] = Field(
        default=None, description="Opens /metrics and nothing else; does not make keys required."
    )
    clients_file: Path = Field(
        default_factory=lambda: user_config_path("finport") / "clients.json",
        description="Hashes of the keys that `finport keys` makes.",
    )
    calls_per_day: Annotated[int, Field(ge=1, le=MOST_PER_DAY)] | None = Field(
        default=None,
        description="Calls that each client may make in a day (UTC), unless its key says.",
    )
    allow_transactional: bool | None = Field(
        default=None,
        description="Whether callers without a key may use tools that may have side effects. "
        "Unset: if nothing real can be reached.",
    )
    allowed_hosts: _Names = Field(
        default=(), description="Names under which it is called, beside localhost and IP addresses."
    )
    allowed_origins: _Names = Field(
        default=(), description="Web origins, beside its own, whose pages may call it."
    )
    max_connections: _Count = Field(default=10_000, description="Open connections.")
    drain_s: _Seconds = Field(default=30.0, description="Time for calls under way after SIGTERM.")
    drain_notice_s: _SecondsOrZero = Field(
        default=0.0, description="After SIGTERM, say not ready but answer new calls for so long."
    )
    log_format: Literal["text", "json"] = Field(default="text", description="Format of the log.")
    access_log: bool = Field(default=False, description="Log a line about each request.")
    usage: bool = Field(
        default=False, description="Count calls by day, client and tool, for `finport usage`."
    )
    currency: str = Field(
        default="", max_length=16, description="What `price_per_request` of hosts is in, as EUR."
    )
    otel: bool = Field(default=False, description="Export spans as the OTEL_* variables say.")

    embeddings_url: _BaseUrl | None = Field(default=None, description="Endpoint that embeds texts.")
    embeddings_model: str | None = Field(
        default=None, description="Model that embeds queries: of the endpoint, or a local one."
    )
    embeddings_key: SecretStr | None = Field(default=None, description="Key of that endpoint.")
    extractor_url: _BaseUrl | None = Field(
        default=None, description="Endpoint that says what a question needs of an answer."
    )
    extractor_model: str | None = Field(default=None, description="Model of that endpoint.")
    extractor_key: SecretStr | None = Field(default=None, description="Key of that endpoint.")

    shape_share: _Share = Field(
        default=0.1, description="Share of live answers whose shape is compared with earlier ones."
    )

    market: Path | None = Field(
        default=None, description="Folder with a recorded market, which adds the tools market_*."
    )
    market_sessions: _Count = Field(default=20_000, description="Sessions of that market at once.")
    market_idle_s: _Seconds = Field(
        default=3_600.0, description="Time after which an unused one ends."
    )

    attempt_timeout_s: _Seconds = Field(default=60.0, description="Time for an attempt.")
    deadline_s: _Seconds = Field(default=180.0, description="Time for a call, with its retries.")
    retries: NonNegativeInt = Field(default=2, description="More attempts after transient faults.")
    max_concurrency_per_host: _Count = Field(
        default=16, description="Calls under way at once at a host that `hosts` does not set."
    )
    max_queue_per_host: NonNegativeInt = Field(
        default=5_000, description="Calls waiting for a host."
    )
    hosts: dict[str, HostSettings] = Field(
        default_factory=dict,
        description="Limits and prices by upstream host; for AkShare by registrable domain.",
    )
    max_pending_calls: _Count = Field(
        default=10_000,
        description="Calls in all that wait for an answer that memory does not have.",
    )
    breaker_failure_rate: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="Share of failed attempts from which a host is not asked.",
    )
    breaker_attempts: _Count = Field(default=20, description="Attempts before that share counts.")
    breaker_window_s: _Seconds = Field(default=30.0, description="Over how long it is counted.")
    breaker_open_s: _Seconds = Field(
        default=10.0, description="Time for which it is then not asked."
    )
    akshare_workers: _Count = Field(default=4, description="Processes that run AkShare.")
    akshare_threads: _Count = Field(default=16, description="Calls at once in each of them.")
    akshare_worker_bytes: int = Field(
        default=1024 * MiB, ge=256 * MiB, description="Memory after which one of them is replaced."
    )

    max_rows: _Count = Field(default=100, description="Rows of a table in an answer.")
    max_tokens: int | None = Field(
        default=None,
        ge=LIMITS["tokens"][0],
        le=LIMITS["tokens"][1],
        description="Budget within which answers are shortened, unless a call names another.",
    )
    stand_in: StandInUse = Field(
        default="never",
        description="Whether another source may answer while a tool's own fails, unless a call or "
        "its key says.",
    )
    encoding: Encoding = Field(default=DEFAULT_ENCODING, description="Encoding that counts tokens.")
    memory_bytes: NonNegativeInt = Field(default=256 * MiB, description="Answers kept in memory.")
    disk_bytes: NonNegativeInt = Field(default=2048 * MiB, description="Answers kept on disk.")
    cache_dir: Path = Field(
        default_factory=lambda: user_cache_path("finport"),
        description="Folder of kept answers, quotas, shapes and names.",
    )
    catalog: Literal["finport", "none"] = Field(
        default="finport", description="Packaged tools that are served beside the user's own."
    )
    providers: dict[_ProviderName, ProviderSettings] = Field(
        default_factory=dict, description="The user's own providers of tools, by name."
    )
    tools: _Paths = Field(
        default=(), description="Python files whose decorated functions are tools, too."
    )
    manifests: _Paths = Field(
        default=(), description="Manifest files, or folders of them, whose tools are served, too."
    )
    openapi: _Names = Field(
        default=(), description="OpenAPI documents, as files or URLs, whose operations are tools."
    )
    mcp: _Names = Field(
        default=(), description="MCP servers, as URLs or commands, whose tools are served, too."
    )
    listings: bool = Field(
        default=True,
        description="Whether names of instruments are also looked up in listings of the tools, "
        "which are read once a week when a name is first needed. Runs of the bench never do.",
    )
    redis_url: Annotated[SecretStr | None, AfterValidator(_redis_url)] = Field(
        default=None,
        description="Redis through which gateways share answers, quotas, rates and keys.",
    )
    redis_prefix: str = Field(
        default="finport",
        pattern=r"^[A-Za-z0-9._-]{1,64}$",
        description="Begins all keys in Redis.",
    )
    redis_bytes: int = Field(default=2048 * MiB, ge=MiB, description="Answers kept in Redis.")

    simulated_seed: int = Field(default=0, description="Seed of the simulated market.")
    simulated_now: date = Field(
        default=date(2026, 6, 30),
        ge=date(2024, 1, 2),
        le=date(2026, 12, 31),
        description="The last day of the simulated market.",
    )
    simulated_latency_s: _SecondsOrZero = Field(default=0.0, description="Time before each answer.")
    simulated_failure_rate: _Share = Field(default=0.0, description="Share of requests with a 503.")
    simulated_hang_rate: _Share = Field(default=0.0, description="Share of those never answered.")
    simulated_faults: dict[str, _Share] = Field(
        default_factory=dict, description="Share of requests that get a fault, by its name."
    )
    simulated_lies: _Share = Field(
        default=0.0, description="Share of answers with wrong content, which only a trace declares."
    )
    simulated_lie_kinds: _Names = Field(
        default=(), description="What is wrong in them, by name. Default: any kind."
    )

    _sharing: int = PrivateAttr(1)
    _worker: int = PrivateAttr(0)
    _shared_folder: Path | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _values_fit(self) -> Self:
        """Reject values that no counter, database or path of the system can take; a file may hold
        them.
        """
        for name, value in self:
            if isinstance(value, int) and abs(value) > MOST:
                raise ValueError(f"{name} is over {MOST}")
            if isinstance(value, Path) and "\0" in str(value):
                raise ValueError(f"{name} holds a character that no path has")
        return self

    @model_validator(mode="after")
    def _mode_and_snapshot_agree(self) -> Self:
        if self.mode != "live" and self.snapshot is None:
            text = f"mode {self.mode} needs a snapshot: --snapshot or FINPORT_SNAPSHOT"
            raise ValueError(text)
        if self.snapshot is not None and "mode" not in self.model_fields_set:
            raise ValueError("a snapshot needs a mode: --mode or FINPORT_MODE")
        return self

    def own_providers(self) -> dict[str, ProviderSettings]:
        """The user's providers by name. One that no table names is called after its file, host or
        program.
        """
        found = dict(self.providers)
        for base, fields in (
            *((_name_of(str(one)), {"python": one}) for one in self.tools),
            *((_name_of(str(one)), {"manifests": one}) for one in self.manifests),
            *((_name_of(one), {"openapi": one}) for one in self.openapi),
            *map(_mcp_origin, self.mcp),
        ):
            name, number = base, 1
            while name in found:
                name, number = f"{base}-{number + 1}", number + 1
            found[name] = ProviderSettings.model_validate(fields)
        return found

    @property
    def transactional(self) -> bool:
        """Whether callers without a key may use tools that may have side effects."""
        if self.allow_transactional is None:
            return self.upstream == "simulated" or self.mode == "offline"
        return self.allow_transactional

    @property
    def world(self) -> str | None:
        """Seed, last day and version of the simulated market, if there is one."""
        if self.upstream != "simulated":
            return None
        return f"{self.simulated_seed}-{self.simulated_now:%Y%m%d}-{WORLD}"

    @property
    def cache_name(self) -> str:
        """The cache folder's name. Each upstream has its own folder, so their answers never mix."""
        if self.upstream == "simulated":
            market = f"simulated-{self.world}"
            if not self.simulated_lies:
                return market
            lies = f"{self.simulated_lies} {sorted(self.simulated_lie_kinds)}"
            return f"{market}-lies-{blake2b(lies.encode(), digest_size=4).hexdigest()}"
        elsewhere = f"{self.rapidapi_base_url} {self.akshare_base_url}"
        if elsewhere == "None None":
            return "live"
        return f"live-{blake2b(elsewhere.encode(), digest_size=4).hexdigest()}"

    @property
    def secrets(self) -> list[str]:
        """The RapidAPI keys, or a placeholder for one if the upstream is simulated."""
        if self.upstream == "simulated":
            return [SIMULATED_SECRET]
        return [key.get_secret_value() for key in self.rapidapi_keys]

    @property
    def ledger_name(self) -> str:
        """Names the quotas of one ledger in Redis."""
        return self.cache_name if self.upstream == "simulated" else "live"

    @property
    def ledger_path(self) -> Path:
        """The file in which requests are counted: one for all live ones, whichever origin they are
        sent to.
        """
        simulated = self.upstream == "simulated"
        folder = self.cache_dir / self.cache_name if simulated else self.cache_dir
        return folder.absolute() / "quota.sqlite"

    @property
    def client_quotas_path(self) -> Path:
        """The file in which calls are counted against the clients' quotas per day."""
        return self.ledger_path.with_name("client-quotas.sqlite")

    @property
    def usage_path(self) -> Path:
        """The file in which calls are counted by day, client and tool."""
        return self.ledger_path.with_name("usage.sqlite")

    @property
    def shapes_path(self) -> Path:
        """The file of the known shapes of answers, one for each upstream."""
        return (self.cache_dir / self.cache_name).absolute() / "shapes.sqlite"

    @property
    def sharing(self) -> int:
        """How many processes share the limits; these settings belong to one of them."""
        return self._sharing

    @property
    def worker(self) -> int:
        """The number of this process among those that serve together."""
        return self._worker

    @property
    def shared_folder(self) -> Path | None:
        """A folder of the processes that serve together, if there are several."""
        return self._shared_folder

    def share(self, workers: int, worker: int = 0, folder: Path | None = None) -> "GatewaySettings":
        """The settings of one of `workers` processes that serve together, the one of number
        `worker`. They share the `folder`.

        Limits that each process applies by itself are divided, rounded up. The disk tier and the
        quotas in the ledger are shared by all. Rates, which manifests set too, are divided by
        `sharing` in `gateway/upstreams/hosts.py`.
        """
        parts: dict[str, Any] = {name: ceil(getattr(self, name) / workers) for name in _SHARED}
        parts["hosts"] = {
            host: own.model_copy(
                update={"concurrency": own.concurrency and ceil(own.concurrency / workers)}
            )
            for host, own in self.hosts.items()
        }
        share = self.model_copy(update=parts)
        share._sharing, share._worker = workers, worker
        share._shared_folder = folder if workers > 1 else None
        return share

    @classmethod
    def read(cls, **overrides: Any) -> "GatewaySettings":
        """Read settings from file, environment and `overrides`. Raises `SettingsError`."""
        try:
            return cls(**{name: v for name, v in overrides.items() if v is not None})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            if first["type"] == "extra_forbidden":
                raise SettingsError(_unknown(first["loc"])) from None
            shown = first["loc"] if first["loc"][:1] == ("providers",) else first["loc"][:1]
            place = f"setting {'.'.join(map(str, shown))}" if shown else "settings"
            message = first["msg"].removeprefix("Value error, ")
            raise SettingsError(f"{place}: {message}") from None
        except ValueError as error:
            raise SettingsError(f"settings: {error}") from None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the library's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        check_variables()
        file = InitSettingsSource(settings_cls, dict(read_settings_file()))
        return init_settings, env_settings, file


def check_variables() -> None:
    """Raises `SettingsError` for a variable `FINPORT_*` that is no setting."""
    known = (f"finport_{name}" for name in GatewaySettings.model_fields)
    check_environment(PREFIX, {CONFIG, *known})


def _unknown(place: tuple[int | str, ...]) -> str:
    """The error text for a setting that does not exist, at the top level or for a host."""
    model = GatewaySettings if len(place) == 1 else HostSettings
    near = did_you_mean(str(place[-1]), model.model_fields)
    return f"settings: {'.'.join(map(str, place))} is no setting{near}"
