"""Parameters and bodies of an OpenAPI operation as parameters of a manifest and parts of a request.

A body that is an object of few properties becomes one parameter a property, any other one `body`.
Defaults are told and never filled in: in a change they would overwrite, and in a query exclude
other parameters.
"""

import re
from typing import Any, Final

from manifests.common.text import words_of
from manifests.manifest import (
    TOKEN,
    Parameter,
    ParameterType,
    Part,
    Scalar,
    Style,
    canonical,
    canonical_json,
    json_type,
)
from manifests.openapi.samples import Samples, told
from manifests.openapi.schemas import (
    MAX_ENUM,
    MAX_WORDS,
    LeftOutError,
    Schema,
    Schemas,
    is_short,
    plain_value,
    without,
    without_patterns,
)

MAX_PARAMETERS: Final = 200
MAX_NAME: Final = 256
MAX_FIELDS: Final = 24
"""The most properties of a body in JSON that become a parameter each; those of a form all do."""

MAX_SCHEMA: Final = 2**15
"""The most characters of the JSON Schema of one parameter."""

_PLACES: Final = ("path", "query", "header", "cookie")
_DEFAULT_STYLE: Final[dict[str, Style]] = {
    "path": "simple", "query": "form", "header": "simple", "cookie": "form",
}  # fmt: skip
_STYLES: Final[dict[str, tuple[Style, ...]]] = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
_IGNORED: Final = frozenset(("accept", "content-type", "authorization"))
_FORBIDDEN: Final = frozenset(
    (
        *("host", "content-length", "transfer-encoding", "connection", "cookie", "upgrade"),
        *("te", "trailer", "keep-alive", "proxy-authorization", "proxy-connection", "expect"),
        *("accept-encoding", "content-encoding"),
    )
)
_FLAT = frozenset(
    ("type", "properties", "required", "description", "default", "examples", "additionalProperties")
)
_CONSTRAINTS: Final = (
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "anyOf", "oneOf", "allOf", "not", "if", "then", "else"),
)
_JSON = re.compile(r"application/([\w.+-]+\+)?json|text/json|\*/\*|application/\*", re.IGNORECASE)
_FORMS: Final = ("application/x-www-form-urlencoded", "multipart/form-data")
_INT32: Final = 2**31


class Arguments:
    """The parameters of one operation, in the making. `sent` are the places and names that
    credentials take.
    """

    def __init__(self, schemas: Schemas, samples: Samples, sent: set[tuple[str, str]]) -> None:
        self._schemas = schemas
        self._samples = samples
        self._sent = {(place, name.lower()) for place, name in sent}
        self.parameters: list[Parameter] = []
        self.parts: list[Part] = []
        self.notes: list[str] = []
        self.media_type = ""
        self.has_body = False
        self.size = 0
        """The characters of all schemas."""
        self._names = set[str]()

    def take_parameters(self, path: str, *lists: Any) -> None:
        """Take the parameters of a path and of an operation, whose own count. One that the path
        names and nobody describes is a string.
        """
        said: dict[tuple[str, str], dict[str, Any]] = {}
        for one in lists:
            for given in one if isinstance(one, list) else ():
                parameter = self._schemas.follow(given)
                place, name = parameter.get("in"), parameter.get("name")
                if place not in _PLACES or not isinstance(name, str) or not name:
                    raise LeftOutError("one of its parameters has no name or no place")
                said[place, name] = parameter
        in_path = dict.fromkeys(re.findall(r"\{([^{}]+)\}", path))
        for name in in_path:
            if ("path", name) not in said:
                said["path", name] = {"schema": {"type": "string"}}
                self.notes.append(f"parameter {name} is not described, and taken as a string")
        if len(said) > MAX_PARAMETERS:
            raise LeftOutError(f"it has over {MAX_PARAMETERS} parameters")
        for (place, name), parameter in said.items():
            if (place, name.lower()) in self._sent:
                continue
            if place == "path" and name not in in_path:
                self.notes.append(f"parameter {name} is left out: the path does not name it")
                continue
            if place == "header" and name.lower() in _IGNORED:
                continue
            is_required = parameter.get("required") is True or place == "path"
            try:
                self._take(place, name, parameter, is_required)
            except LeftOutError as error:
                if is_required:
                    raise LeftOutError(f"parameter {name}: {error}") from None
                self.notes.append(f"parameter {name} is left out: {error}")

    def take_body(self, body: Any) -> None:
        """Take the body of an operation, if it has one."""
        if body is None:
            return
        said = self._schemas.follow(body)
        is_required = said.get("required") is True
        content = said.get("content")
        before = (list(self.parameters), list(self.parts), set(self._names))
        try:
            media_type, media = _media(content if isinstance(content, dict) else {})
            schema = self._schemas.inlined(media.get("schema", {}))
            given = _examples(media)
            if _is_flat(schema, media_type):
                self._take_fields(schema, is_required, media, given, media_type)
            elif media_type in _FORMS:
                if _type_of(schema, "body") != "object" or media.get("encoding"):
                    raise LeftOutError("its form is no plain object")
                self._add_body(schema, is_required, given, "", media_type)
            else:
                description = words_of(said.get("description"), MAX_WORDS)
                self._add_body(schema, is_required, given, description, media_type)
            self.media_type, self.has_body = media_type, is_required
        except LeftOutError as error:
            if is_required:
                raise LeftOutError(f"its body: {error}") from None
            self.parameters, self.parts, self._names = before
            self.notes.append(f"its body is left out: {error}")

    def _take(self, place: str, name: str, said: dict[str, Any], is_required: bool) -> None:
        if len(name) > MAX_NAME:
            raise LeftOutError(f"its name has over {MAX_NAME} characters")
        if place in ("header", "cookie") and not TOKEN.fullmatch(name):
            raise LeftOutError("its name is no name of a header or cookie")
        if place == "header" and name.lower() in _FORBIDDEN:
            raise LeftOutError("this header is set by HTTP itself")
        style: Style
        content = said.get("content")
        if isinstance(content, dict) and content:
            media_type, media = next(iter(content.items()))
            if not _JSON.fullmatch(media_type) or not isinstance(media, dict):
                raise LeftOutError(f"it is written as {words_of(media_type, 80)}")
            style, explode, schema_said, given = "json", False, media.get("schema", {}), media
        else:
            style = said.get("style") or _DEFAULT_STYLE[place]
            if style not in _STYLES[place]:
                raise LeftOutError(f"its style {words_of(style, 40)} is none of a {place}")
            explode = said.get("explode", style in ("form", "deepObject")) is True
            schema_said, given = said.get("schema", {}), said
        schema = self._schemas.inlined(schema_said)
        if schema.get("format") == "binary" and place != "query":
            raise LeftOutError("it is a file")
        parameter = self._parameter(
            self._unique(name, place),
            schema,
            is_required,
            _examples(given),
            words_of(said.get("description"), MAX_WORDS),
            place,
            deprecated=said.get("deprecated") is True,
        )
        self.parameters.append(parameter)
        self.parts.append(
            Part(
                argument=parameter.name,
                place=place,  # type: ignore[arg-type]  # it is one of `_PLACES`
                name=name,
                style=style,
                explode=explode,
                reserved=said.get("allowReserved") is True and place == "query",
            )
        )

    def _take_fields(
        self,
        schema: Schema,
        is_required: bool,
        media: dict[str, Any],
        given: list[Any],
        media_type: str,
    ) -> None:
        """One parameter for each property of a body. A body in JSON that may be left out, but not
        in part, stays one parameter; such a form is required here.
        """
        needed = schema.get("required", [])
        if not is_required and needed and media_type not in _FORMS:
            self._add_body(schema, False, given, "", media_type)
            return
        encoding = media.get("encoding")
        for name, inner in schema.get("properties", {}).items():
            try:
                if inner.get("format") == "binary":
                    raise LeftOutError("it is a file")
                examples = [one[name] for one in given if isinstance(one, dict) and name in one]
                parameter = self._parameter(
                    self._unique(name, "body"), inner, name in needed, examples, "", "body"
                )
            except LeftOutError as error:
                if name in needed:
                    raise LeftOutError(f"property {name}: {error}") from None
                self.notes.append(f"property {name} of its body is left out: {error}")
                continue
            self.parameters.append(parameter)
            style, explode = _field_style(encoding, name)
            self.parts.append(
                Part(
                    argument=parameter.name, place="field", name=name, style=style, explode=explode
                )
            )

    def _add_body(
        self, schema: Schema, is_required: bool, given: list[Any], words: str, media_type: str
    ) -> None:
        is_text = media_type.startswith("text/plain")
        if is_text and _type_of(schema, "body") != "string":
            raise LeftOutError("its text is no string")
        if not schema.keys() - {"description"}:
            schema = {"type": "object", **schema}
        name = self._unique("body", "request")
        parameter = self._parameter(
            name, schema, is_required, given, words or "Body of the request.", "body"
        )
        self.parameters.append(parameter)
        style: Style = "simple" if is_text or media_type in _FORMS else "json"
        self.parts.append(Part(argument=name, place="body", style=style, explode=True))

    def _parameter(
        self,
        name: str,
        schema: Schema,
        is_required: bool,
        given: list[Any],
        words: str,
        place: str,
        *,
        deprecated: bool = False,
    ) -> Parameter:
        type_ = _type_of(schema, place)
        bare = without_patterns(schema)
        if type_ in ("array", "object"):
            rules = {k: v for k, v in bare.items() if k not in ("type", "description", "default")}
            enum = None
        else:
            enum = _enum(bare, type_)
            rules = {name_: bare[name_] for name_ in _CONSTRAINTS if name_ in bare}
            if type_ == "integer" and bare.get("format") == "int32":
                rules.setdefault("minimum", -_INT32)
                rules.setdefault("maximum", _INT32 - 1)
        if is_required and type_ in ("array", "object") and place != "body":
            least = "minItems" if type_ == "array" else "minProperties"
            rules[least] = max(1, rules.get(least, 0))
        form = None
        if type_ == "string" and bare.get("format") == "date" and not enum:
            form, rules = "date", {}
        if len(canonical_json(rules)) > MAX_SCHEMA:
            rules = without(rules, ("description", "examples", "default", "format"))
        if len(canonical_json(rules)) > MAX_SCHEMA:
            raise LeftOutError("its schema is too long")
        self.size += len(canonical_json([rules, enum]))
        example = self._example(schema, rules, type_, enum, is_required, given, place)
        said = _described(words or bare.get("description", ""), bare, schema, type_, form)
        return Parameter(
            name=name,
            type=type_,
            description=f"Deprecated. {said}" if deprecated else said,
            required=is_required,
            example=example,
            format=form,
            enum=enum,
            json_schema=rules or None,
        )

    def _example(
        self,
        schema: Schema,
        rules: Schema,
        type_: ParameterType,
        enum: tuple[Scalar, ...] | None,
        is_required: bool,
        given: list[Any],
        place: str,
    ) -> Scalar | None:
        checked: Schema = {"type": type_, **rules}
        if enum:
            checked["enum"] = [*enum]
        given = [one for one in given if is_short(one)]
        if schema.get("format") == "date" and type_ == "string":
            given = [one for one in given if _is_date(one)]
            schema = {k: v for k, v in schema.items() if k not in ("examples", "default")}
        if place == "path" and type_ == "string":
            checked["minLength"] = max(1, checked.get("minLength", 0))
            checked["not"] = {"enum": [".", ".."]}
        if not is_required:
            for value in (*given, *schema.get("examples", ())):
                found = canonical(value, type_)
                if found is not None and is_short(value) and self._samples.allows(checked, value):
                    return found
            return None
        rich: Schema = {k: schema[k] for k in ("format", "pattern") if k in schema}
        rich |= checked
        if type_ in ("array", "object"):
            rich = {**schema, "type": type_}
            rich |= {k: rules[k] for k in ("minItems", "minProperties") if k in rules}
        made = self._samples.of(rich, (*given, *told(schema)))
        found = canonical(made, type_)
        if found is None or not is_short(made):
            raise LeftOutError("no example of it can be made")
        return found

    def _unique(self, name: str, place: str) -> str:
        """A name that every model vendor takes, and that no other parameter has."""
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("_")[:56] or place
        unique, number = plain, 1
        while unique in self._names:
            unique, number = f"{plain[:48]}_{place}{number if number > 1 else ''}", number + 1
        self._names.add(unique)
        return unique


def _media(content: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The media type in which a body is sent. Raises `LeftOutError`."""
    plain = {t.partition(";")[0].strip().lower(): t for t in content if isinstance(t, str)}
    json = [t for t in plain if _JSON.fullmatch(t)]
    for type_ in (*sorted(json, key=lambda t: t != "application/json"), *_FORMS):
        if type_ in plain and isinstance(content[plain[type_]], dict):
            return "application/json" if "*" in type_ else type_, content[plain[type_]]
    if "text/plain" in plain and isinstance(content[plain["text/plain"]], dict):
        return "text/plain", content[plain["text/plain"]]
    said = words_of(", ".join(plain), 80) or "no media type"
    raise LeftOutError(f"it is sent as {said}, neither JSON nor a form")


def _is_flat(schema: Schema, media_type: str) -> bool:
    """Whether each property of a body becomes a parameter."""
    properties = schema.get("properties", {})
    if schema.get("type", "object") != "object" or not properties or schema.keys() - _FLAT:
        return False
    if isinstance(schema.get("additionalProperties"), dict) and schema["additionalProperties"]:
        return False
    if set(schema.get("required", ())) - properties.keys():
        return False
    if media_type in _FORMS:  # each property has a style of its own
        return len(properties) <= MAX_PARAMETERS
    return len(properties) <= MAX_FIELDS and _JSON.fullmatch(media_type) is not None


def _field_style(encoding: Any, name: str) -> tuple[Style, bool]:
    """How a property of a form is written; in a JSON body this has no effect."""
    said = encoding.get(name) if isinstance(encoding, dict) else None
    if not isinstance(said, dict) or "style" not in said:
        return "form", not isinstance(said, dict) or said.get("explode", True) is True
    style: Style = said["style"] if said["style"] in _STYLES["query"] else "form"
    return style, said.get("explode", style in ("form", "deepObject")) is True


def _examples(said: dict[str, Any]) -> list[Any]:
    """The examples of a parameter or media type, as values."""
    found = [plain_value(said["example"])] if "example" in said else []
    many = said.get("examples")
    some = [*many.values()][:5] if isinstance(many, dict) else []
    values = (one["value"] for one in some if isinstance(one, dict) and "value" in one)
    return [*found, *map(plain_value, values)]


def _type_of(schema: Schema, place: str, depth: int = 0) -> ParameterType:
    """The type of a parameter: one of those that its schema allows."""
    said = schema.get("type")
    types = [t for t in (said if isinstance(said, list) else [said]) if t and t != "null"]
    if len(types) > 1:
        for type_ in ("string", "number", "integer", "boolean", "object", "array"):
            if type_ in types:
                return type_
    if types:
        found: ParameterType = types[0]
        return found
    if said:
        raise LeftOutError("it is always null")
    for values in (schema.get("enum", ()), [schema[k] for k in ("const",) if k in schema]):
        for value in values:
            if (type_ := json_type(value)) != "null":
                return type_
    for name in ("allOf", "anyOf", "oneOf"):
        found_in = []
        for branch in schema.get(name, ()) if depth < 8 else ():
            if branch.get("type") == "null":
                continue
            try:
                found_in.append(_type_of(branch, place, depth + 1))
            except LeftOutError:
                continue
        if found_in:
            is_body = place == "body"
            order = ("object", "array") if is_body else ("string", "number", "integer", "boolean")
            return next((t for t in order if t in found_in), found_in[0])
    if "properties" in schema or "additionalProperties" in schema or "required" in schema:
        return "object"
    if "items" in schema:
        return "array"
    return "string"


def _enum(schema: Schema, type_: ParameterType) -> tuple[Scalar, ...] | None:
    said = [schema["const"]] if "const" in schema else schema.get("enum")
    if not said or len(said) > MAX_ENUM:
        return None
    found = [canonical(value, type_) for value in said]
    kept = tuple(dict.fromkeys(value for value in found if value is not None))
    if not kept:
        raise LeftOutError(f"none of its values is a {type_}")
    return kept


def _is_date(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"(19|20)\d\d-\d\d-\d\d", value) is not None


def _described(
    words: str, schema: Schema, whole: Schema, type_: ParameterType, form: str | None
) -> str:
    """What models read of a parameter, with what no keyword of its schema here says."""
    text = words_of(words, MAX_WORDS)
    if "pattern" in whole and "Matches" not in text:
        text = f"{text} Matches {words_of(whole['pattern'], 100)}"
    if schema.get("format") and not form and type_ == "string":
        text = f"{text} Format: {schema['format']}."
    default = schema.get("default")
    if isinstance(default, str | int | float):
        told_ = canonical_json(default) if isinstance(default, bool) else str(default)
        text = f"{text} Default: {words_of(told_, 60)}."
    return text.strip() or "No description is given."
