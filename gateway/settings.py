"""Settings: environment `FINPORT_*` over `finport.toml` over the defaults below."""

import tomllib
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from platformdirs import user_cache_path
from pydantic import (
    AfterValidator,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

MiB = 2**20
DAY_S = 86_400.0


def _origin(url: str) -> str:
    """`http` or `https` and a host, without a slash at the end."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise ValueError("must be of the form http://HOST:PORT")
    return url.rstrip("/")


BaseUrl = Annotated[str, AfterValidator(_origin)]


Mode = Literal["live", "record", "replay", "offline"]


class SettingsError(Exception):
    """The settings can't be used; the text says which one and why, never its value."""


class GatewaySettings(BaseSettings):
    """What an operator may set. Times in seconds, sizes in bytes."""

    model_config = SettingsConfigDict(
        env_prefix="FINPORT_", toml_file="finport.toml", extra="forbid", hide_input_in_errors=True
    )

    upstream: Literal["live", "simulated"] = "live"
    mode: Mode = "live"
    snapshot: Path | None = None
    rapidapi_keys: Annotated[tuple[SecretStr, ...], NoDecode] = ()
    credentials: dict[str, SecretStr] = Field(default_factory=dict)
    rapidapi_base_url: BaseUrl | None = None
    akshare_base_url: BaseUrl | None = None

    embeddings_url: BaseUrl | None = None
    embeddings_model: str | None = None
    embeddings_key: SecretStr | None = None

    attempt_timeout_s: float = Field(60.0, gt=0, le=DAY_S)
    deadline_s: float = Field(180.0, gt=0, le=DAY_S)
    retries: int = Field(2, ge=0)
    per_host: int = Field(16, ge=1)
    akshare_workers: int = Field(2, ge=1)
    akshare_threads: int = Field(16, ge=1)

    max_rows: int = Field(100, ge=1)
    memory_bytes: int = Field(256 * MiB, ge=0)
    disk_bytes: int = Field(2048 * MiB, ge=0)
    cache_dir: Path = Field(default_factory=lambda: user_cache_path("finport"))

    simulated_seed: int = 0
    simulated_latency_s: float = Field(0.0, ge=0, le=DAY_S)
    simulated_failure_rate: float = Field(0.0, ge=0, le=1)
    simulated_hang_rate: float = Field(0.0, ge=0, le=1)

    @field_validator("rapidapi_keys", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(key.strip() for key in value.split(",") if key.strip())
        return value

    @field_validator("rapidapi_keys")
    @classmethod
    def _are_headers(cls, keys: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        for key in keys:
            text = key.get_secret_value()
            if not (text.isascii() and text.isprintable()):
                raise ValueError("a key holds a character that no header can carry")
        return keys

    @model_validator(mode="after")
    def _mode_and_snapshot_agree(self) -> Self:
        if self.mode != "live" and self.snapshot is None:
            text = f"mode {self.mode} needs a snapshot: --snapshot or FINPORT_SNAPSHOT"
            raise ValueError(text)
        if self.snapshot is not None and "mode" not in self.model_fields_set:
            raise ValueError("a snapshot needs a mode: --mode or FINPORT_MODE")
        return self

    @property
    def cache_name(self) -> str:
        """Answers of different upstreams never meet: each has a folder of its own."""
        if self.upstream == "simulated":
            return f"simulated-{self.simulated_seed}"
        elsewhere = f"{self.rapidapi_base_url} {self.akshare_base_url}"
        if elsewhere == "None None":
            return "live"
        return f"live-{blake2b(elsewhere.encode(), digest_size=4).hexdigest()}"

    @classmethod
    def read(cls, **overrides: Any) -> "GatewaySettings":
        """Settings from file, environment and `overrides`. Raises `SettingsError`."""
        try:
            return cls(**{name: v for name, v in overrides.items() if v is not None})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = f"setting {first['loc'][0]}" if first["loc"] else "settings"
            message = first["msg"].removeprefix("Value error, ")
            raise SettingsError(f"{place}: {message}") from None
        except (tomllib.TOMLDecodeError, ValueError) as error:
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
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)
