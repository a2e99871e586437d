"""Settings: environment `FINPORT_*` over `finport.toml` over the defaults below."""

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from platformdirs import user_cache_path
from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

MiB = 2**20


class SettingsError(Exception):
    """The settings can't be used; the text says which one and why, never its value."""


class GatewaySettings(BaseSettings):
    """What an operator may set. Times in seconds, sizes in bytes."""

    model_config = SettingsConfigDict(
        env_prefix="FINPORT_", toml_file="finport.toml", extra="ignore", hide_input_in_errors=True
    )

    upstream: Literal["live", "simulated"] = "live"
    rapidapi_keys: Annotated[tuple[SecretStr, ...], NoDecode] = ()
    credentials: dict[str, SecretStr] = Field(default_factory=dict)
    rapidapi_base_url: str | None = None
    akshare_base_url: str | None = None

    attempt_timeout_s: float = Field(60.0, gt=0)
    deadline_s: float = Field(180.0, gt=0)
    retries: int = Field(2, ge=0)
    per_host: int = Field(16, ge=1)
    akshare_workers: int = Field(2, ge=1)
    akshare_threads: int = Field(16, ge=1)

    max_rows: int = Field(100, ge=1)
    memory_bytes: int = Field(256 * MiB, ge=0)
    disk_bytes: int = Field(2048 * MiB, ge=0)
    cache_dir: Path = Field(default_factory=lambda: user_cache_path("finport"))

    simulated_seed: int = 0
    simulated_latency_s: float = Field(0.0, ge=0)
    simulated_failure_rate: float = Field(0.0, ge=0, le=1)
    simulated_hang_rate: float = Field(0.0, ge=0, le=1)

    @field_validator("rapidapi_keys", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(key.strip() for key in value.split(",") if key.strip())
        return value

    @property
    def cache_name(self) -> str:
        """Answers of different upstreams never meet: each has a folder of its own."""
        return "live" if self.upstream == "live" else f"simulated-{self.simulated_seed}"

    @classmethod
    def read(cls, **overrides: Any) -> "GatewaySettings":
        """Settings from file, environment and `overrides`. Raises `SettingsError`."""
        try:
            return cls(**{name: v for name, v in overrides.items() if v is not None})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            name = ".".join(str(part) for part in first["loc"])
            raise SettingsError(f"setting {name}: {first['msg']}") from None
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
