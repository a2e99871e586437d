"""Arguments that fit a tool's parameters, drawn by Hypothesis from their JSON Schemas."""

import warnings
from datetime import date
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisWarning
from jsonschema import Draft202012Validator

from manifests import ArgumentError, HttpBinding, Manifest, Parameter, Signature

Schema = dict[str, Any]

_DAY = date(1970, 1, 1)

_TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=12)
_PLAIN = st.text(st.sampled_from("abcXYZ019-_."), min_size=1, max_size=12)


def drawn(manifest: Manifest, examples: int) -> list[dict[str, Any]]:
    """Sets of arguments for a tool."""
    found: list[dict[str, Any]] = []
    signature = Signature(manifest)

    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
    )
    @given(arguments_of(manifest))
    def take(arguments: dict[str, Any]) -> None:
        try:
            signature.bind(arguments)
        except ArgumentError as error:
            if "is before" not in str(error):  # a range of dates, which the gateway checks
                raise
        else:
            found.append(arguments)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HypothesisWarning)
        take()
    return found


def arguments_of(manifest: Manifest) -> st.SearchStrategy[dict[str, Any]]:
    binding = manifest.binding
    assert isinstance(binding, HttpBinding)
    places = {part.argument: part.place for part in binding.parts}
    by_need: dict[bool, dict[str, st.SearchStrategy[Any]]] = {True: {}, False: {}}
    for p in manifest.parameters:
        by_need[p.required][p.name] = _of(p, places[p.name])
    return st.fixed_dictionaries(by_need[True], optional=by_need[False])


def _of(p: Parameter, place: str) -> st.SearchStrategy[Any]:
    if p.enum is not None:
        return st.sampled_from(p.enum)
    if p.format == "date":
        return st.dates(min_value=_DAY).map(str)
    schema = {"type": p.type, **(p.json_schema or {})}
    validator = Draft202012Validator(schema)
    text = _TEXT if place in ("query", "body", "field") else _PLAIN
    made = _values(schema, text)
    if p.type == "string" and place == "path":
        made = made.filter(lambda v: v not in ("", ".", ".."))
    known = p.example
    fitting = made.filter(lambda v: validator.is_valid(v) and _is_sent(v, place, p))
    return fitting if known is None else st.one_of(fitting, st.just(p.shown(known)))


def _is_sent(value: Any, place: str, p: Parameter) -> bool:
    """Whether a value can be told from none, and its texts from delimiters."""
    if place in ("query", "path", "header", "cookie") and p.is_json:
        return bool(value) and "" not in (value.values() if isinstance(value, dict) else value)
    return True


def _values(schema: Any, text: st.SearchStrategy[str], depth: int = 0) -> st.SearchStrategy[Any]:
    if not isinstance(schema, dict):
        schema = {}
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    for name in ("oneOf", "anyOf"):
        if name in schema:
            beside = {k: v for k, v in schema.items() if k != name}
            type_ = schema.get("type")  # a branch of another type would allow no value
            fitting = [one for one in schema[name] if _may_be(type_, one)]
            branches = [_values(_both(beside, one), text, depth + 1) for one in fitting]
            return st.one_of(branches).filter(Draft202012Validator(schema).is_valid)
    if "allOf" in schema:
        whole = {k: v for k, v in schema.items() if k != "allOf"}
        for part in schema["allOf"]:
            whole = _both(whole, part)
        return _values(whole, text, depth + 1)
    types = schema.get("type", "object" if "properties" in schema else "string")
    made = [_typed(schema, t, text, depth) for t in (types if isinstance(types, list) else [types])]
    return st.one_of(made)


def _may_be(type_: Any, branch: Any) -> bool:
    """Whether a branch may allow a value of that type."""
    other = branch.get("type") if isinstance(branch, dict) else None
    if not isinstance(type_, str) or not isinstance(other, str):
        return True
    return type_ == other or {type_, other} == {"integer", "number"}


def _both(one: Schema, other: Schema) -> Schema:
    both = {**one, **other}
    for name in ("properties", "required", "allOf"):
        if name in one and name in other:
            mine, theirs = one[name], other[name]
            both[name] = {**mine, **theirs} if isinstance(mine, dict) else [*mine, *theirs]
    return both


def _typed(
    schema: Schema, type_: str, text: st.SearchStrategy[str], depth: int
) -> st.SearchStrategy[Any]:
    match type_:
        case "null":
            return st.none()
        case "boolean":
            return st.booleans()
        case "integer" | "number":
            return _numbers(schema, type_)
        case "array":
            least = schema.get("minItems", 0)
            most = max(least, min(schema.get("maxItems", 3), least + 3))
            item = schema.get("items", {"type": "string"})
            unique = str if schema.get("uniqueItems") else None
            values = _values(item, text, depth + 1)
            return st.lists(values, min_size=least, max_size=most, unique_by=unique)
        case "object":
            needed = set(schema.get("required", ()))
            properties = {
                name: _values(inner, text, depth + 1)
                for name, inner in schema.get("properties", {}).items()
                if depth < 6 or name in needed
            }
            for name in needed - properties.keys():
                properties[name] = text
            extra = schema.get("additionalProperties")
            least = schema.get("minProperties", 0)
            if not properties and (isinstance(extra, dict) or least):
                values = _values(extra or {"type": "string"}, text, depth + 1)
                return st.dictionaries(_PLAIN, values, min_size=least, max_size=least + 2)
            return st.fixed_dictionaries(
                {n: v for n, v in properties.items() if n in needed},
                optional={n: v for n, v in properties.items() if n not in needed},
            ).filter(lambda v: len(v) >= least)
    least = schema.get("minLength", 0)
    if least > 12:
        return st.just("x" * least)
    most = schema.get("maxLength", 12)
    return text.map(lambda t: (t + "x" * least)[: max(least, min(most, 12))])


def _numbers(schema: Schema, type_: str) -> st.SearchStrategy[Any]:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    low = max(low if low is not None else min(-1000, (high or 0) - 1000), -(2**53) + 1)
    high = min(high if high is not None else max(1000, low + 1000), 2**53 - 1)
    step = schema.get("multipleOf")
    if step is not None:
        whole = st.integers(int(low // step), int(high // step))
        return whole.map(lambda n: n * step).filter(Draft202012Validator(schema).is_valid)
    if type_ == "integer":
        valid = Draft202012Validator({k: schema[k] for k in schema if "xclusive" in k})
        return st.integers(int(low), int(high)).filter(valid.is_valid)
    floats = st.floats(low, high, allow_nan=False, width=32 if abs(low) < 1e6 else 64)
    try:
        floats.validate()
    except Exception:  # noqa: BLE001 - the bounds have no such floats
        floats = st.floats(low, high, allow_nan=False)
    return floats.filter(
        Draft202012Validator({k: schema[k] for k in schema if k != "type"}).is_valid
    )
