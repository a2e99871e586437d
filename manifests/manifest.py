"""The manifest: everything that is known about one tool before it is called.

A manifest is immutable and self-contained. Its `revision` changes exactly when something changes
that may change an answer (name, parameters, binding), so an outdated answer is never read from a
cache.
"""

import re
from collections.abc import Mapping
from functools import cached_property
from hashlib import blake2b
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import orjson
from pydantic import BaseModel, ConfigDict, Field, model_validator

from manifests.common.origin import told_url
from manifests.formats import DATE_FORMATS

Scalar = str | int | float | bool
Source = Literal["rapidapi", "akshare", "market", "finport", "python", "http", "mcp"]
Timeliness = Literal["realtime", "daily", "weekly", "monthly", "as_filed", "periodic", "static"]
Intent = Literal["informational", "advisory", "transactional"]
Domain = Literal[
    "equity",
    "bond",
    "fund",
    "forex",
    "derivatives",
    "macro",
    "economic_policy",
    "sentiment_trading",
    "esg",
    "crypto",
]
ScalarType = Literal["string", "number", "integer", "boolean"]
ParameterType = Literal["string", "number", "integer", "boolean", "array", "object"]

PLACEHOLDER = re.compile(r"\{(\w+)\}")


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Parameter(_Model):
    """One argument of a tool.

    `filled_by` says who gives the value: the `agent`; the gateway, from the operator's
    `credential` settings; or the gateway, from the time left until the call's `deadline`.
    `withdrawn` says why the installed upstream no longer takes a parameter that the benchmark's
    catalogue has.

    A `default` is the upstream's. That of a `required` parameter fills no call: it stands for one
    instrument among many (a security, fund, index, board, contract, commodity or currency), so an
    answer about it would not be what a call without it asks for.

    The value of an `array` or `object` is its JSON text, with sorted names and without blanks, in
    canonical arguments and here; callers give and see the value itself. `json_schema` (JSON Schema
    2020-12) says what it may be.
    """

    name: str
    type: ParameterType
    description: str
    required: bool = False
    default: Scalar | None = None
    example: Scalar | None = None
    format: str | None = None
    enum: tuple[Scalar, ...] | None = None
    filled_by: Literal["agent", "credential", "deadline"] = "agent"
    withdrawn: str | None = None
    json_schema: dict[str, Any] | None = None

    @property
    def is_json(self) -> bool:
        """Whether a value is an array or object, of which canonical arguments hold the text."""
        return self.type in ("array", "object")

    def shown(self, value: Scalar) -> Any:
        """A canonical value as callers give it and see it."""
        return orjson.loads(str(value)) if self.is_json else value

    @property
    def filling(self) -> Scalar | None:
        """The default that is taken if a call leaves the parameter out."""
        return None if self.required else self.default


class Column(_Model):
    """One column of a tabular answer; names are the upstream's own, mostly Chinese."""

    name: str
    type: ScalarType | None = None
    description: str | None = None


class Observed(_Model):
    """What recorded answers of a tool were like. No upstream promises it. `data` is the JSON Schema
    (2020-12) of their data, `answers` their number, `until` the day of the last one (UTC).
    """

    data: dict[str, Any]
    answers: Annotated[int, Field(ge=1)]
    until: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]

    @property
    def schema_of_data(self) -> dict[str, Any]:
        """`data` as the first of the alternatives, of which the other is anything: a new answer
        may differ.
        """
        told = f"As in {self.answers} recorded answers, the last of {self.until}"
        return {"description": f"{told}; observed, not promised.", "anyOf": [self.data, {}]}


class RapidApiBinding(_Model):
    """How arguments become an HTTP request.

    `path` holds placeholders named after parameters. `query` and `headers` map parameter names to
    the names that the upstream expects.
    """

    source: Literal["rapidapi"] = "rapidapi"
    host: str
    method: Literal["GET"] = "GET"
    path: str
    query: dict[str, str] = Field(default_factory=dict)
    headers: dict[str, str] = Field(default_factory=dict)

    @property
    def hosts(self) -> tuple[str, ...]:
        return (self.host,)


class AkShareBinding(_Model):
    """The AkShare function of a tool, its upstream hosts, and whether it reads page by page."""

    source: Literal["akshare"] = "akshare"
    function: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]*$")]
    hosts: tuple[str, ...] = ()
    paged: bool = False


class MarketBinding(_Model):
    """What a tool does in a session of a recorded market (`adapters/market`)."""

    source: Literal["market"] = "market"
    operation: Literal["open", "observe", "trade", "recall", "close"]

    @property
    def hosts(self) -> tuple[str, ...]:
        return ("market",)


class OwnBinding(_Model):
    """What one of Finport's own tools does."""

    source: Literal["finport"] = "finport"
    operation: Literal["resolve_symbol"]

    @property
    def hosts(self) -> tuple[str, ...]:
        return ("finport",)


class PythonBinding(_Model):
    """A Python function of the user's by its full name, and a hash of its source code."""

    source: Literal["python"] = "python"
    function: str
    code: str

    @property
    def hosts(self) -> tuple[str, ...]:
        return (self.function,)


class McpBinding(_Model):
    """A tool of an MCP server: the host of the server's URL, or its provider's name if it is a
    program, the name there, and whether the server says that the tool only reads.
    """

    source: Literal["mcp"] = "mcp"
    server: str
    tool: str
    reads: bool = False

    @property
    def hosts(self) -> tuple[str, ...]:
        return (self.server,)


Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
Style = Literal[
    "simple", "label", "matrix", "form", "spaceDelimited", "pipeDelimited", "deepObject", "json"
]


class Part(_Model):
    """Where an argument stands in an HTTP request, and how it is written there.

    `name` is the upstream's; `body` is the whole body and `field` a property of it. The styles are
    those of OpenAPI, and `json` the JSON text of the value. With `reserved`, characters that are
    reserved in URLs stay as they are.
    """

    argument: str
    place: Literal["path", "query", "header", "cookie", "field", "body"]
    name: str = ""
    style: Style = "simple"
    explode: bool = False
    reserved: bool = False


class Credential(_Model):
    """A security scheme that a request satisfies: its name, and where the secret is sent. `oauth2`
    is the flow of client credentials, whose token `token_url` issues.
    """

    scheme: str
    kind: Literal["header", "query", "cookie", "bearer", "basic", "oauth2"]
    name: str = ""
    token_url: str = ""
    scopes: tuple[str, ...] = ()


class HttpBinding(_Model):
    """How arguments become a request to any HTTP API.

    `path` holds the upstream's names of path parameters in braces. A request satisfies all
    credentials of one alternative in `security`. `accept` are the media types that it asks for.
    With `has_body` a body is sent even if no argument stands in it.
    """

    source: Literal["http"] = "http"
    base_url: str
    method: Method = "GET"
    path: str
    parts: tuple[Part, ...] = ()
    media_type: str = ""
    has_body: bool = False
    security: tuple[tuple[Credential, ...], ...] = ()
    accept: str = "application/json"

    @property
    def hosts(self) -> tuple[str, ...]:
        return (urlsplit(self.base_url).netloc,)

    @property
    def in_path(self) -> list[str]:
        """The arguments that stand in the path."""
        return [part.argument for part in self.parts if part.place == "path"]

    @model_validator(mode="after")
    def _is_consistent(self) -> "HttpBinding":
        check_base_url(self.base_url)
        in_path = [part.name for part in self.parts if part.place == "path"]
        if sorted(in_path) != sorted(_IN_BRACES.findall(self.path)):
            raise ValueError(f"path {self.path!r} and its parts disagree")
        if not self.path.startswith("/") or not self.path.isprintable():
            raise ValueError(f"path {self.path!r} does not begin with a slash, or is not printable")
        if re.search(r"[?#\s\\]|/\.{1,2}(/|$)|[{}]", _IN_BRACES.sub("x", self.path)):
            raise ValueError(f"path {self.path!r} has more than plain segments")
        if len({part.argument for part in self.parts}) != len(self.parts):
            raise ValueError("an argument has two places")
        in_body = [part.place for part in self.parts if part.place in ("field", "body")]
        if (in_body and not self.media_type) or ("body" in in_body and len(in_body) > 1):
            raise ValueError("the body is one argument or fields of one media type")
        names = [p.name for p in self.parts if p.place in ("header", "cookie")]
        names += [c.name for one in self.security for c in one if c.kind in ("header", "cookie")]
        if not all(map(TOKEN.fullmatch, names)):
            raise ValueError("the name of a header or cookie is no token")
        return self


TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
"""The name of a header or cookie (RFC 9110, section 5.6.2)."""

_IN_BRACES = re.compile(r"\{([^{}]+)\}")


def check_base_url(url: str) -> None:
    """Raises `ValueError` unless requests may be sent below this URL."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable():
        raise ValueError(f"{told_url(url)[:200]!r} is not of the form https://HOST/PATH")
    if parts.username is not None or parts.password is not None:
        raise ValueError("a credential stands in the address of a server")
    if parts.query or parts.fragment or parts.port == 0 or re.search(r"[{}\s]", url):
        raise ValueError(f"{told_url(url)[:200]!r} has more than a host and a path")


class FreshnessOverride(_Model):
    """Freshness of a tool whose answers age differently from its class (`cache/freshness.py`).

    Seconds. A field that is not set keeps the value of the timeliness class. `updates_utc` names
    the times of day (`HH:MM`) at which new data is expected: an answer is fresh until the next one.
    """

    fresh_s: Annotated[float, Field(ge=0)] | None = None
    stale_while_revalidate_s: Annotated[float, Field(ge=0)] | None = None
    stale_if_error_s: Annotated[float, Field(ge=0)] | None = None
    updates_utc: (
        Annotated[
            tuple[Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")], ...],
            Field(min_length=1),
        ]
        | None
    ) = None

    @model_validator(mode="after")
    def _says_one_thing(self) -> "FreshnessOverride":
        if self.fresh_s is not None and self.updates_utc is not None:
            raise ValueError("freshness: either fresh_s or updates_utc, not both")
        return self


class PlanLimits(_Model):
    """Calls per span of time that an upstream's plan allows a key, or that it asks of everybody.

    `per_second` may be a fraction: 0.5 is one call in two seconds.
    """

    per_second: Annotated[float, Field(gt=0)] | None = None
    per_hour: Annotated[int, Field(ge=1)] | None = None
    per_day: Annotated[int, Field(ge=1)] | None = None
    per_month: Annotated[int, Field(ge=1)] | None = None


Unit = Literal["day", "text", "price", "points", "money", "share", "lot"]

EXACT: Mapping[tuple[Unit | None, Unit | None], tuple[int, int]] = {
    ("lot", "share"): (100, 1),
    ("share", "lot"): (1, 100),
}
"""Units that convert exactly: by what a figure of the first is multiplied and divided."""


class Measured(_Model):
    """What the figures of a tool's answers are in; only what is declared here can be compared.

    `units` names the unit of columns. Prices and money are in `currency` (ISO 4217), days are those
    of `zone`. `adjusted_by` is the parameter that chooses how prices are adjusted: its empty value,
    or no such parameter, gives them as they were paid.
    """

    units: dict[str, Unit]
    zone: str
    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")] | None = None
    adjusted_by: str | None = None


class Filling(_Model):
    """How an argument of a stand-in is made: a constant `value`, or from the argument `of` the
    asked tool.

    Of that, `part` (a regular expression that matches all of it) takes its first group; `values`
    gives the value of each text, `form` puts the text into another (`csi{}`), and `format` spells
    it (`manifests/formats.py`). What does not match has no value.
    """

    of: str | None = None
    part: str | None = None
    values: dict[str, Scalar] | None = None
    form: str | None = None
    format: str | None = None
    value: Scalar | None = None

    @model_validator(mode="after")
    def _has_one_origin(self) -> "Filling":
        if (self.of is None) == (self.value is None):
            raise ValueError("an argument of a stand-in has either of or value")
        return self


class Given(_Model):
    """Where a column comes from: the stand-in's column `of`, or the own `argument`. Rounding by one
    of the two sources makes figures differ by at most `within`, in the asked tool's unit.
    """

    of: str | None = None
    argument: str | None = None
    within: Annotated[float, Field(ge=0)] = 0.0

    @model_validator(mode="after")
    def _has_one_origin(self) -> "Given":
        if (self.of is None) == (self.argument is None):
            raise ValueError("a column of a stand-in has either of or argument")
        return self


class Days(_Model):
    """The rows that are asked for: those whose day in the stand-in's `column` is not before the own
    argument `first` and not after `last`.
    """

    column: str
    first: str
    last: str


class StandIn(_Model):
    """Another tool of another source that gives the same facts (`manifests/stand_ins.py`).

    It applies to calls whose arguments match `when` (regular expressions for whole texts; an
    argument that is not given is empty). `same` names its columns that repeat its own arguments: a
    row that says otherwise is of another instrument. A column of the asked tool that is not in
    `columns` can't be given.
    """

    tool: str
    when: dict[str, str] = Field(default_factory=dict)
    arguments: dict[str, Filling]
    columns: dict[str, Given]
    days: Days | None = None
    same: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _patterns_are_valid(self) -> "StandIn":
        parts = (filling.part for filling in self.arguments.values())
        for pattern in (*self.when.values(), *(part for part in parts if part is not None)):
            try:
                re.compile(pattern)
            except re.error as error:
                text = f"stand-in {self.tool}: {pattern!r} is no regular expression: {error}"
                raise ValueError(text) from None
        return self


class Manifest(_Model):
    """One tool: what it returns, what it takes, how it is called.

    `timeliness`, `intent_type` and `regulatory_domains` are the finance tags as FinToolBench
    publishes them (arXiv 2603.08262). `limits` apply to all tools of its host together.
    `stand_ins` are other tools that give the same facts, the best first. `unavailable` is the
    reason why the tool can't be called now. `provider` is the user's provider that it comes from,
    if any. `generated` names what a program made the manifest from, such as `akshare 1.19.5`;
    nobody has checked it then.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    description: str
    timeliness: Timeliness
    intent_type: Intent
    regulatory_domains: tuple[Domain, ...]
    parameters: tuple[Parameter, ...] = ()
    columns: tuple[Column, ...] = ()
    observed: Observed | None = None
    binding: Annotated[
        RapidApiBinding
        | AkShareBinding
        | MarketBinding
        | OwnBinding
        | PythonBinding
        | HttpBinding
        | McpBinding,
        Field(discriminator="source"),
    ]
    freshness: FreshnessOverride | None = None
    limits: PlanLimits | None = None
    measured: Measured | None = None
    stand_ins: tuple[StandIn, ...] = ()
    unavailable: str | None = None
    provider: str | None = None
    generated: Annotated[str, Field(max_length=100)] | None = None

    @property
    def source(self) -> Source:
        return self.binding.source

    @property
    def home(self) -> str:
        """The user's provider of this tool, or `finport` for a packaged one."""
        return self.provider or "finport"

    @property
    def is_for_one(self) -> bool:
        """Whether each call is executed for its caller alone, and its answer is never cached,
        shared or recorded in a snapshot: it may have side effects, or the gateway itself answers.
        """
        return self.intent_type == "transactional" or self.is_local

    @property
    def is_local(self) -> bool:
        """Whether the gateway itself answers, from a session of a recorded market or from a table:
        there is no upstream host, and there are no limits.
        """
        return self.binding.source in ("market", "finport")

    @property
    def upstream(self) -> str:
        """The host that this tool mainly calls; `unknown` if the binding names none."""
        return self.binding.hosts[0] if self.binding.hosts else "unknown"

    @cached_property
    def revision(self) -> str:
        """A hash (16 hex digits) of everything that may change an answer."""
        content = self.model_dump(
            mode="json", include={"name": True, "binding": True, "parameters": {"__all__": _KEYED}}
        )
        return blake2b(
            orjson.dumps(content, option=orjson.OPT_SORT_KEYS), digest_size=8
        ).hexdigest()

    def sample(self) -> dict[str, Any]:
        """Arguments for an example call: every required parameter with its example."""
        return {
            p.name: p.shown(p.example)
            for p in self.parameters
            if p.required and p.filled_by == "agent" and p.example is not None
        }

    def probe(self) -> dict[str, Any]:
        """Arguments for the call by which drift of this tool is measured: those of `sample`, with
        the upstream's defaults of required parameters, and every other parameter that takes a date
        or a year, so that what is asked for does not depend on the day of the call.
        """
        defaults = {
            p.name: p.shown(p.default)
            for p in self.parameters
            if p.required and p.default is not None
        }
        dates = {
            p.name: p.example
            for p in self.parameters
            if p.filled_by == "agent" and p.withdrawn is None and p.example and _takes_date(p)
        }
        return {**self.sample(), **defaults, **dates}

    @model_validator(mode="after")
    def _is_consistent(self) -> "Manifest":
        names = [p.name for p in self.parameters]
        if len(set(names)) != len(names):
            raise ValueError(f"{self.name}: a parameter is named twice")
        for p in self.parameters:
            for field, value in (("default", p.default), ("example", p.example)):
                if value is not None and not is_of(value, p.type):
                    raise ValueError(f"{self.name}.{p.name}: {field} {value!r} is no {p.type}")
                if value is not None and p.enum is not None and value not in p.enum:
                    raise ValueError(f"{self.name}.{p.name}: {field} {value!r} is not in its enum")
            if p.required and p.filled_by == "agent" and p.example is None:
                raise ValueError(f"{self.name}.{p.name}: required, but without an example")
        if isinstance(self.binding, RapidApiBinding):
            sent = {*PLACEHOLDER.findall(self.binding.path), *self.binding.query}
            sent |= set(self.binding.headers)
            if sent != set(names):
                odd = ", ".join(sorted(sent ^ set(names)))
                raise ValueError(f"{self.name}: binding and parameters disagree on {odd}")
        if isinstance(self.binding, HttpBinding):
            places = {part.argument for part in self.binding.parts}
            if places != set(names):
                odd = ", ".join(sorted(places ^ set(names)))
                raise ValueError(f"{self.name}: binding and parameters disagree on {odd}")
        return self


_KEYED = {"name", "type", "default", "filled_by", "withdrawn"}


def canonical_json(value: object) -> str:
    """The text that stands for an array or object in canonical arguments. Raises `TypeError`."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def json_type(value: object) -> ParameterType | Literal["null"]:
    """The type of a JSON value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case list():
            return "array"
        case dict():
            return "object"
    return "string"


def canonical(value: object, type_: ParameterType) -> Scalar | None:
    """A JSON value as manifests hold it, None if it is of another type."""
    if type_ in ("array", "object"):
        if not isinstance(value, list if type_ == "array" else dict):
            return None
        try:
            return canonical_json(value)
        except TypeError:
            return None
    if type_ == "integer" and isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str | int | float) and is_of(value, type_):
        return value
    return None


def is_of(value: object, type_: ParameterType) -> bool:
    """Whether `value` is exactly of the manifest type `type_` (a boolean is no number)."""
    if type_ == "array" or type_ == "object":
        if not isinstance(value, str) or value[:1] != ("[" if type_ == "array" else "{"):
            return False
        try:
            return canonical_json(orjson.loads(value)) == value
        except orjson.JSONDecodeError:
            return False
    if isinstance(value, bool):
        return type_ == "boolean"
    match type_:
        case "string":
            return isinstance(value, str)
        case "integer":
            return isinstance(value, int)
        case "number":
            return isinstance(value, int | float)
        case "boolean":
            return False


_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]|$)|(?:19|20)\d{2}$")


def _takes_date(parameter: Parameter) -> bool:
    if parameter.format in DATE_FORMATS:
        return True
    return isinstance(parameter.example, str) and _DATE.match(parameter.example) is not None
