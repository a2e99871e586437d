"""The gateway's settings.

Environment `FINPORT_*` overrides the file of `gateway/settings_file.py`, which overrides the
defaults below.
"""

import logging
import os
import shlex
from collections.abc import Mapping
from hashlib import blake2b
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from platformdirs import user_cache_path, user_config_path
from pydantic import (
    AfterValidator,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    field_validator,
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
from gateway.environment import check_environment
from gateway.settings_file import CONFIG, SettingsError, read_settings_file, settings_file
from gateway.sharing.connection import address_of
from manifests import PlanLimits
from manifests.common.nearest import did_you_mean

__all__ = ["GatewaySettings", "HostSettings", "Mode", "SettingsError"]

log = logging.getLogger("finport.settings")

PREFIX = "FINPORT_"

MiB = 2**20
DAY_S = 86_400.0
MOST = 2**53


def _origin(url: str) -> str:
    """Check for `http` or `https` and a host; remove a slash at the end."""
    parts = urlsplit(url)
    is_whole = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    if not is_whole or parts.query or not url.isprintable():
        raise ValueError("must be of the form http://HOST:PORT")
    return url.rstrip("/")


def _check_header(key: SecretStr) -> None:
    text = key.get_secret_value()
    if not (text.isascii() and text.isprintable()):
        raise ValueError("a key holds a character that no header can carry")


BaseUrl = Annotated[str, AfterValidator(_origin)]


Mode = Literal["live", "record", "replay", "offline"]

_SHARED = (
    *("max_connections", "max_concurrency_per_host", "max_queue_per_host", "max_pending_calls"),
    *("akshare_workers", "memory_bytes", "market_sessions"),
)


RENAMED = {
    "connections": "max_connections",
    "per_host": "max_concurrency_per_host",
    "host_line": "max_queue_per_host",
    "pending": "max_pending_calls",
}
"""Settings that had another name in 0.1, mapped to their present names; the old ones still work."""

SIMULATED_SECRET = "no-key-of-the-simulated-upstream"  # noqa: S105 - it opens nothing


class HostSettings(PlanLimits):
    """An operator's settings for one upstream host, which override manifests; for RapidAPI per key.

    `concurrency` is how many calls may be under way there at once.
    """

    concurrency: Annotated[int, Field(ge=1)] | None = None


class GatewaySettings(BaseSettings):
    """What an operator may set. Times are in seconds, sizes in bytes.

    `hosts` sets limits by upstream host (for AkShare the registrable domain).
    `max_concurrency_per_host` is how many calls may be under way at each of the other hosts, and
    `max_queue_per_host` how many may wait for one. `max_pending_calls` is how many calls in all may
    be waiting for an answer that memory does not have.

    `api_keys` and the keys in `clients_file` belong to the gateway's own clients; without any, only
    loopback is served. `metrics_key` opens `/metrics` in addition to them and nothing else, so that
    whoever reads metrics needs no key that calls tools. By itself it does not make keys required.
    `allow_transactional` says whether callers without a key may use tools that may have side
    effects; if unset, they may if nothing real can be reached. `allowed_hosts` are the names,
    beside localhost and IP addresses, under which the gateway may be called over HTTP.
    `allowed_origins` are the web origins, beside its own, whose pages may call it.
    `max_connections` bounds open connections. After SIGTERM the gateway says for `drain_notice_s`
    that it is not ready and answers new calls all the same; then calls under way may take
    `drain_s`. `market` is a folder with recorded prices and news of InvestorBench's form; with it
    there are the tools `market_*`, with at most `market_sessions` sessions, each of which ends when
    it is not used for `market_idle_s`. `access_log` writes a line about each request to the log.
    `otel` exports spans as the OTEL_* variables of OpenTelemetry say.

    `redis_url` names the Redis through which several gateways share answers, quotas, rates and
    keys; `redis_prefix` begins its keys, and `redis_bytes` bounds the
    answers there.

    `shape_share` is the share of live answers whose shape is compared with earlier ones; 0 turns
    that off. `shape_command` are the words of a command that gets each change on standard input.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", hide_input_in_errors=True)

    upstream: Literal["live", "simulated"] = "live"
    mode: Mode = "live"
    snapshot: Path | None = None
    rapidapi_keys: Annotated[tuple[SecretStr, ...], NoDecode] = ()
    credentials: dict[str, SecretStr] = Field(default_factory=dict)
    rapidapi_base_url: BaseUrl | None = None
    akshare_base_url: BaseUrl | None = None

    api_keys: Annotated[tuple[SecretStr, ...], NoDecode] = ()
    metrics_key: SecretStr | None = None
    clients_file: Path = Field(default_factory=lambda: user_config_path("finport") / "clients.json")
    allow_transactional: bool | None = None
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    allowed_origins: Annotated[tuple[str, ...], NoDecode] = ()
    max_connections: int = Field(default=10_000, ge=1)
    drain_s: float = Field(default=30.0, gt=0, le=DAY_S)
    drain_notice_s: float = Field(default=0.0, ge=0, le=DAY_S)
    log_format: Literal["text", "json"] = "text"
    access_log: bool = False
    otel: bool = False

    embeddings_url: BaseUrl | None = None
    embeddings_model: str | None = None
    embeddings_key: SecretStr | None = None
    extractor_url: BaseUrl | None = None
    extractor_model: str | None = None
    extractor_key: SecretStr | None = None

    shape_share: float = Field(default=0.1, ge=0, le=1)
    shape_command: Annotated[tuple[str, ...], NoDecode] = ()

    market: Path | None = None
    market_sessions: int = Field(default=20_000, ge=1)
    market_idle_s: float = Field(default=3_600.0, gt=0, le=DAY_S)

    attempt_timeout_s: float = Field(default=60.0, gt=0, le=DAY_S)
    deadline_s: float = Field(default=180.0, gt=0, le=DAY_S)
    retries: int = Field(default=2, ge=0)
    max_concurrency_per_host: int = Field(default=16, ge=1)
    max_queue_per_host: int = Field(default=5_000, ge=0)
    hosts: dict[str, HostSettings] = Field(default_factory=dict)
    max_pending_calls: int = Field(default=10_000, ge=1)
    breaker_failure_rate: float = Field(default=0.5, gt=0, le=1)
    breaker_attempts: int = Field(default=20, ge=1)
    breaker_window_s: float = Field(default=30.0, gt=0, le=DAY_S)
    breaker_open_s: float = Field(default=10.0, gt=0, le=DAY_S)
    akshare_workers: int = Field(default=4, ge=1)
    akshare_threads: int = Field(default=16, ge=1)
    akshare_worker_bytes: int = Field(default=1024 * MiB, ge=256 * MiB)

    max_rows: int = Field(default=100, ge=1)
    max_tokens: int | None = Field(default=None, ge=LIMITS["tokens"][0], le=LIMITS["tokens"][1])
    encoding: Encoding = DEFAULT_ENCODING
    memory_bytes: int = Field(default=256 * MiB, ge=0)
    disk_bytes: int = Field(default=2048 * MiB, ge=0)
    cache_dir: Path = Field(default_factory=lambda: user_cache_path("finport"))
    redis_url: SecretStr | None = None
    redis_prefix: str = Field(default="finport", pattern=r"^[A-Za-z0-9._-]{1,64}$")
    redis_bytes: int = Field(default=2048 * MiB, ge=MiB)

    simulated_seed: int = 0
    simulated_latency_s: float = Field(default=0.0, ge=0, le=DAY_S)
    simulated_failure_rate: float = Field(default=0.0, ge=0, le=1)
    simulated_hang_rate: float = Field(default=0.0, ge=0, le=1)
    simulated_faults: dict[str, Annotated[float, Field(ge=0, le=1)]] = Field(default_factory=dict)

    _sharing: int = PrivateAttr(1)
    _worker: int = PrivateAttr(0)
    _shared_folder: Path | None = PrivateAttr(None)

    @field_validator("rapidapi_keys", "api_keys", "allowed_hosts", "allowed_origins", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("rapidapi_keys", "api_keys")
    @classmethod
    def _are_headers(cls, keys: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        for key in keys:
            _check_header(key)
        return keys

    @field_validator("redis_url")
    @classmethod
    def _is_redis(cls, url: SecretStr | None) -> SecretStr | None:
        """Check the form; the text of a refusal has no part of the URL."""
        if url is None or not url.get_secret_value():
            return None
        address_of(url.get_secret_value())
        if find_spec("redis") is None:
            raise ValueError("needs redis-py: pip install 'finport[redis]'")
        return url

    @field_validator("shape_command", mode="before")
    @classmethod
    def _words(cls, value: Any) -> Any:
        """Split a text as a shell does."""
        return tuple(shlex.split(value)) if isinstance(value, str) else value

    @field_validator("shape_command")
    @classmethod
    def _can_be_run(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        if words and (not words[0] or any("\0" in word for word in words)):
            raise ValueError("must be a program and its arguments")
        return words

    @field_validator("metrics_key", mode="after")
    @classmethod
    def _is_header(cls, key: SecretStr | None) -> SecretStr | None:
        """Treat an empty key as none: a request could give it without knowing it."""
        if key is None or not key.get_secret_value().strip():
            return None
        _check_header(key)
        return SecretStr(key.get_secret_value().strip())

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

    @property
    def transactional(self) -> bool:
        """Whether callers without a key may use tools that may have side effects."""
        if self.allow_transactional is None:
            return self.upstream == "simulated" or self.mode == "offline"
        return self.allow_transactional

    @property
    def cache_name(self) -> str:
        """The cache folder's name. Each upstream has its own folder, so their answers never mix."""
        if self.upstream == "simulated":
            return f"simulated-{self.simulated_seed}"
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
            place = f"setting {first['loc'][0]}" if first["loc"] else "settings"
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
        given, by_old_names, file = (
            InitSettingsSource(settings_cls, _with_new_names(said, source))
            for said, source in (
                (init_settings(), "given as an argument"),
                (_renamed_variables(), "given as a variable FINPORT_*"),
                (read_settings_file(), f"given in {settings_file()}"),
            )
        )
        return given, env_settings, by_old_names, file


def check_variables() -> None:
    """Raises `SettingsError` for a variable `FINPORT_*` that is no setting."""
    known = (f"finport_{name}" for name in (*GatewaySettings.model_fields, *RENAMED))
    check_environment(PREFIX, {CONFIG, *known})


def _renamed_variables() -> dict[str, Any]:
    """Variables by old names of settings and, beside them, by new ones."""
    said = {name.lower(): value for name, value in os.environ.items()}
    renamed = [pair for pair in RENAMED.items() if f"finport_{pair[0]}" in said]
    names = [name for pair in renamed for name in pair if f"finport_{name}" in said]
    return {name: said[f"finport_{name}"] for name in names}


def _with_new_names(said: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Replace old names of settings, with a warning; if both are given, the new one counts."""
    for old, new in RENAMED.items():
        if old in said:
            ignored = f"; {new} is given there too, so {old} has no effect" if new in said else ""
            log.warning(
                "setting %s is now named %s; the old name, %s, goes with the next release%s",
                *(old, new, source, ignored),
            )
    return {RENAMED[old]: said[old] for old in RENAMED if old in said} | {
        name: value for name, value in said.items() if name not in RENAMED
    }


def _unknown(place: tuple[int | str, ...]) -> str:
    """The error text for a setting that does not exist, at the top level or for a host."""
    model = GatewaySettings if len(place) == 1 else HostSettings
    near = did_you_mean(str(place[-1]), model.model_fields)
    return f"settings: {'.'.join(map(str, place))} is no setting{near}"
