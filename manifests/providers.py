"""Providers of the user's own: where further tools come from, and what holds for all tools of one.

A provider is a table of the settings file, or is named on the command line. The tools of a provider
are called as they are, whatever upstream is chosen for the packaged catalogue.
"""

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from manifests.common.origin import told_server, told_url
from manifests.manifest import (
    Domain,
    FreshnessOverride,
    HttpBinding,
    Intent,
    Manifest,
    PlanLimits,
    Timeliness,
    check_base_url,
)

_NOTHING = FreshnessOverride(fresh_s=0, stale_while_revalidate_s=0, stale_if_error_s=0)

ProviderKind = Literal["python", "manifests", "openapi", "mcp"]


class ProviderSettings(BaseModel):
    """One provider. Exactly one of `python`, `manifests`, `openapi`, `mcp` and `command` is set.

    `credentials` maps the name of a security scheme of an OpenAPI document, or of a header of an
    MCP server, to the name of the environment variable that holds the secret. What `timeliness`,
    `freshness`, `intent`, `domains` and `limits` say takes the place of what the tools say.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    python: Path | None = Field(default=None, description="Python file with decorated functions.")
    manifests: Path | None = Field(default=None, description="Manifest file, or a folder of them.")
    openapi: str | None = Field(default=None, description="OpenAPI document: a file or a URL.")
    mcp: str | None = Field(default=None, description="URL of an MCP server (streamable HTTP).")
    command: tuple[str, ...] | None = Field(
        default=None, min_length=1, description="Program that is an MCP server over its streams."
    )
    environment: tuple[str, ...] = Field(
        default=(), description="Environment variables that this program gets."
    )
    prefix: str = Field(
        default="", pattern=r"^[A-Za-z0-9_-]{0,32}$", description="Begins the names of its tools."
    )
    base_url: str | None = Field(
        default=None, description="Origin and path that requests are sent to."
    )
    allow_private: bool = Field(
        default=False, description="Whether a public name may have a private address."
    )
    credentials: dict[str, Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]] = Field(
        default_factory=dict, description="Environment variables that hold its secrets, by scheme."
    )
    only: tuple[str, ...] = Field(
        default=(), description="Tools that are taken: names, or as in 'GET /prices*'; * is any."
    )
    only_tags: tuple[str, ...] = Field(default=(), description="OpenAPI tags that are taken.")
    timeliness: Timeliness | None = Field(default=None, description="Class of their freshness.")
    freshness: FreshnessOverride | None = Field(default=None, description="How long it lasts.")
    cache: bool = Field(default=True, description="Whether answers are kept.")
    intent: Intent | None = Field(
        default=None, description="Whether they only read; transactional: they change something."
    )
    domains: tuple[Domain, ...] | None = Field(default=None, description="Financial domains.")
    limits: PlanLimits | None = Field(default=None, description="Calls per span of time.")

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> Self:
        given = [
            n for n in ("python", "manifests", "openapi", "mcp", "command") if getattr(self, n)
        ]
        if len(given) != 1:
            said = " and ".join(given) or "none"
            raise ValueError(f"one of python, manifests, openapi, mcp, command is set, not {said}")
        for field, needed in (
            ("only_tags", ("openapi",)),
            ("base_url", ("openapi", "manifests")),
            ("credentials", ("openapi", "manifests", "mcp")),
            ("environment", ("command",)),
        ):
            if getattr(self, field) and given[0] not in needed:
                raise ValueError(f"{field} has no effect with {given[0]}")
        if self.base_url is not None:
            check_base_url(self.base_url)
        return self

    @property
    def kind(self) -> ProviderKind:
        if self.python:
            return "python"
        if self.manifests:
            return "manifests"
        return "openapi" if self.openapi else "mcp"

    @property
    def origin(self) -> str:
        """What a person is told of where the tools come from; it holds no secret."""
        said = self.python or self.manifests or self.openapi or self.mcp
        return told_url(str(said)) if said else told_server(self.command or ())

    def takes(self, *names: str) -> bool:
        """Whether a tool that goes by these names is taken."""
        return not self.only or any(fnmatchcase(n, form) for n in names for form in self.only)

    def applied(self, name: str, manifests: Iterable[Manifest]) -> Iterator[Manifest]:
        """The manifests as tools of this provider, which is called `name`."""
        said = {
            "provider": name,
            "timeliness": self.timeliness,
            "freshness": self.freshness if self.cache else _NOTHING,
            "intent_type": self.intent,
            "regulatory_domains": self.domains,
            "limits": self.limits,
        }
        update = {field: value for field, value in said.items() if value is not None}
        for manifest in manifests:
            renamed: dict[str, object] = {**update, "name": f"{self.prefix}{manifest.name}"}
            if self.base_url is not None and isinstance(manifest.binding, HttpBinding):
                base_url = self.base_url.rstrip("/")
                renamed["binding"] = manifest.binding.model_copy(update={"base_url": base_url})
            yield Manifest.model_validate(dict(manifest) | renamed)
