"""Writes manifests of AkShare functions from the installed package: its index, signatures and code.

Nothing of AkShare is imported or run. The texts are those of the package. What the package does not
say is read from words, and where they leave a choice the rules take the careful side:

- An argument whose name stands for a subject (`_SUBJECTS`) is required, unless the documentation
  lists its values: its default would answer about one instrument among many.
- An argument has an `enum` only if the code looks it up in a table. A list of values in the
  documentation stays in the description.
- `realtime` goes before all other words, and is what remains if no rule matches: the answer is kept
  for seconds. `as_filed` is what companies, funds and offices of statistics publish.
- The domains come from AkShare's category, those of an index also from its words. A function about
  films, cars or the weather has none.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from manifests.akshare_code import Code, code_of, hosts_in
from manifests.akshare_source import (
    COMPUTED,
    FUNCTION_NAME,
    REQUIRED,
    accepted_by_code,
    akshare_index,
    akshare_version,
    defaults_of,
    module_tree,
    scalar_of,
    type_of,
)
from manifests.catalog import Catalog, read, text_of
from manifests.common.files import replaced_file
from manifests.common.nearest import hint, nearest
from manifests.common.problem import first_problem
from manifests.manifest import (
    AkShareBinding,
    Column,
    Domain,
    Manifest,
    Parameter,
    Scalar,
    ScalarType,
    Timeliness,
    is_of,
)

MOST_TEXT = 1_000
"""Characters of one text of the package that a manifest repeats."""

_SUBJECTS = frozenset(
    {
        *("symbol", "code", "security", "stock", "fund", "bond", "contract", "var", "underlying"),
        *("stock_code", "fund_code", "index_code", "index_category", "city", "area", "word"),
        *("symbol1", "symbol2", "question", "keyword"),
    }
)
_CREDENTIALS = frozenset({"cookie", "token", "api_key", "password"})

_LIST = re.compile(r"[，,;； ]*choice of *\{[^}]*\}[，,;；。 ]*")
_EVERY = re.compile(r"全部|所有|all$", re.IGNORECASE)
_INSTRUMENT = re.compile(r"指数$|国债$|期权$|合约$|^(?:sh|sz)?\d{6}$")
_NO_SCALAR = re.compile(
    r"dataframe|series|\blist\b|\bdict\b|\btuple\b|callable|function", re.IGNORECASE
)
_COLUMN_TYPES: Mapping[str, ScalarType] = {
    "float64": "number",
    "float": "number",
    "int64": "integer",
    "int": "integer",
    "bool": "boolean",
    "object": "string",
    "str": "string",
}

_FRESH: tuple[tuple[re.Pattern[str], Timeliness], ...] = (
    (
        re.compile(
            r"实时|分时|分钟|当前时点|即时|快讯|新闻|资讯|报价|盘口|交易提醒|(?<!历史)行情数据"
            r"|人气|热度|逐笔|估算|_spot|_min\b|_min_|_quote|_tick|_realtime|^news_"
        ),
        "realtime",
    ),
    (
        re.compile(
            r"公示|公告|财报|年报|季报|股东|持股|持有人|股权质押|分红|发行|评级|披露|cninfo"
            r"|月度|季度|年度|年率|月率|季率|富豪榜|榜单"
        ),
        "as_filed",
    ),
    (re.compile(r"周报|每周|周度"), "weekly"),
    (
        re.compile(
            r"日频|日度|每日|交易日|历史|指定日期|一览表|品种表|代码表|目录|估值|_hist|_daily"
            r"|_name|_map|_table|_symbol"
        ),
        "daily",
    ),
)
_DAILY_MACRO = re.compile(
    r"日度|每日|日频|持仓|库存|拆借|shibor|汇率|中间价|运费|干散货|油轮|人民币|信贷|交易报告"
    r"|lme|油价|国债收益率|融资融券|航运",
    re.IGNORECASE,
)

_DOMAINS: Mapping[str, tuple[Domain, ...]] = {
    "stock": ("equity",),
    "stock_feature": ("equity",),
    "stock_fundamental": ("equity",),
    "hf": ("equity",),
    "tool": ("equity",),
    "index": ("equity",),
    "bond": ("bond",),
    "fund": ("fund",),
    "reits": ("fund",),
    "qdii": ("fund",),
    "futures": ("derivatives",),
    "futures_derivative": ("derivatives",),
    "option": ("derivatives",),
    "spot": ("derivatives",),
    "cal": ("derivatives",),
    "energy": ("macro",),
    "macro": ("macro",),
    "interest_rate": ("macro", "economic_policy"),
    "bank": ("economic_policy",),
    "fx": ("forex",),
    "currency": ("forex",),
    "dc": ("crypto",),
}
_DOMAINS_BY_WORD: tuple[tuple[re.Pattern[str], tuple[Domain, ...]], ...] = (
    (re.compile(r"碳交易|碳排放|碳情|排污|ESG"), ("esg",)),
    (re.compile(r"比特币|加密货币"), ("crypto",)),
    (re.compile(r"波动率指数|QVIX"), ("derivatives",)),
    (re.compile(r"利率决议|存款准备金|LPR|货币政策"), ("macro", "economic_policy")),
    (re.compile(r"情绪|热度|人气"), ("equity", "sentiment_trading")),
    (re.compile(r"财新|PMI|经济|现货|价格指数|糖|FRED"), ("macro",)),
)
_WORDS_BEFORE_CATEGORY = frozenset({"index", "energy", "interest_rate", "macro", "article"})
_ADVICE = re.compile(r"推荐|投资评级|目标价")

_DATES: Mapping[str, re.Pattern[str]] = {
    "yyyymmdd": re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"),
    "date": re.compile(r"(?:19|20)\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"),
    "yyyymm": re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])"),
    "yyyy": re.compile(r"(?:19|20)\d\d"),
}
_IS_DATE = re.compile(r"begin|end|start|(?:.*_)?(?:date|day|month|year)")


@dataclass
class Imported:
    """The new manifests, and why each other name was refused. If all functions were asked for, also
    how many of them the catalogue has, and how many the folder.
    """

    release: str
    of_all: bool
    manifests: list[Manifest] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    packaged: int = 0
    present: int = 0


def imported(names: Iterable[str] | None, known: Catalog, prefix: str = "") -> Imported:
    """Manifests for the functions `names` of the installed AkShare that `known` does not call; with
    None for all others. Each tool is named after its function, behind `prefix`.

    Raises `AkShareMissingError`.
    """
    result = Imported(akshare_version(), names is None)
    entries = {
        name: entry
        for entry in akshare_index()
        if isinstance(name := entry.get("name"), str) and FUNCTION_NAME.fullmatch(name)
    }
    bound = {m.binding.function for m in known if isinstance(m.binding, AkShareBinding)}
    for name in entries if names is None else dict.fromkeys(names):
        if name in bound and names is None:
            result.packaged += 1
        elif name in bound:
            result.refused[name] = "the catalogue has a manifest for it already"
        elif name not in entries:
            text = f"AkShare {result.release} has no function of that name"
            result.refused[name] = text + hint(nearest(name, entries))
        elif known.get(prefix + name) is not None:
            result.refused[name] = f"the catalogue has a tool {prefix + name} already"
        else:
            try:
                result.manifests.append(_manifest(entries[name], prefix, result.release))
            except ValueError as error:
                result.refused[name] = first_problem(error)
    return result


def write(result: Imported, folder: Path, *, force: bool) -> list[Path]:
    """Write the manifests into files of `folder`, one a family, and return these. A file keeps its
    other tools. A tool that a file has already is replaced with `force`, and else left as it is.

    Raises `CatalogError` and `OSError`.
    """
    files = {file: read(file) for file in sorted(folder.rglob("*.json"))}
    place = {tool.name: file for file, tools in files.items() for tool in tools}
    new: dict[Path, dict[str, Manifest]] = {}
    for manifest in [*result.manifests]:
        if not isinstance(manifest.binding, AkShareBinding):
            continue
        function = manifest.binding.function
        family = function.strip("_").partition("_")[0] or "other"
        file = place.get(manifest.name, folder / f"{family}.json")
        if force or manifest.name not in place:
            new.setdefault(file, {})[manifest.name] = manifest
            continue
        result.manifests.remove(manifest)
        if result.of_all:
            result.present += 1
        else:
            result.refused[function] = f"{file} has it already; --force replaces it"
    for file, tools in new.items():
        kept = {tool.name: tool for tool in files.get(file, ())}
        file.parent.mkdir(parents=True, exist_ok=True)
        with replaced_file(file, follow_links=False) as out:
            out.write(text_of({**kept, **tools}.values()).encode())
    return [*new]


def _manifest(entry: Mapping[str, Any], prefix: str, release: str) -> Manifest:
    """Raises `ValueError` if the function can't be a tool."""
    name, module = str(entry["name"]), str(entry.get("module"))
    code = code_of(module, name)
    if code is None:
        raise ValueError(f"the code of {module} does not define it")
    if code.refusal is not None:
        raise ValueError(code.refusal)
    texts = [_text(entry.get(key)) for key in ("desc", "limit_desc")]
    description = "；".join(dict.fromkeys(text for text in texts if text))
    description = description or _text(code.docstring.strip().partition("\n")[0]) or name
    words = f"{name} {description}"
    category = _text(entry.get("category"))
    hosts = dict.fromkeys((*code.hosts, *hosts_in(_text(entry.get("url")))))
    if not hosts:
        hosts = dict.fromkeys(hosts_in(code.docstring))
    return Manifest(
        name=prefix + name,
        description=description,
        timeliness=_timeliness(module, category, words),
        intent_type="advisory" if _ADVICE.search(description) else "informational",
        regulatory_domains=_domains(category, words),
        parameters=tuple(map(_parameter, _arguments(entry, code))),
        columns=tuple(_columns(entry)),
        binding=AkShareBinding(function=name, hosts=tuple(hosts), paged=code.is_paged),
        generated=f"akshare {release}",
    )


def _text(value: object) -> str:
    """A text of the package on one line; empty for what is none, and for `-`."""
    text = " ".join(str(value).split()) if isinstance(value, str) else ""
    return "" if text == "-" else text[:MOST_TEXT]


def _columns(entry: Mapping[str, Any]) -> Iterator[Column]:
    seen = {""}
    for output in _records(entry.get("outputs")):
        name = _text(output.get("name"))
        if name not in seen:
            seen.add(name)
            type_ = _COLUMN_TYPES.get(_text(output.get("type")).lower())
            yield Column(name=name, type=type_, description=_text(output.get("desc")) or None)


def _records(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _timeliness(module: str, category: str, words: str) -> Timeliness:
    is_macro = category in ("macro", "interest_rate") or ".economic." in module
    for pattern, timeliness in _FRESH:
        if is_macro and timeliness != "realtime":
            return "daily" if _DAILY_MACRO.search(words) else "as_filed"
        if pattern.search(words):
            return timeliness
    return "realtime"


def _domains(category: str, words: str) -> tuple[Domain, ...]:
    by_word = next((found for pattern, found in _DOMAINS_BY_WORD if pattern.search(words)), ())
    if category in _WORDS_BEFORE_CATEGORY and by_word:
        return by_word
    return _DOMAINS.get(category, ())


@dataclass(frozen=True, slots=True)
class _Argument:
    """What the package says of one argument: its default, the text of the index, what remains of
    that without the value or else the docstring, its types, values that are shown, and the keys of
    the table in which the code looks it up.
    """

    name: str
    default: object
    text: str
    about: str
    types: tuple[str, ...]
    shown: tuple[Scalar | None, ...]
    accepted: tuple[str, ...]


def _arguments(entry: Mapping[str, Any], code: Code) -> Iterator[_Argument]:
    described = {_text(p.get("name")): p for p in _records(entry.get("params"))}
    accepted = accepted_by_code(code.function, module_tree(code.module))
    documented = _documented(code.docstring)
    called = _called(code.function.name, entry.get("example"))
    for name, default in defaults_of(code.function.args).items():
        index = described.get(name, {})
        value, rest = _value_of(name, text := _text(index.get("desc")))
        yield _Argument(
            name,
            default,
            text,
            rest or documented.get(name, "") or name,
            (documented.get(f"type {name}", ""), _text(index.get("type")), code.annotation(name)),
            (called.get(name), value),
            accepted.get(name, ()),
        )


def _parameter(of: _Argument) -> Parameter:
    """Raises `ValueError` if a call needs the argument and can't have it."""
    name, about, is_needed = of.name, of.about, of.default == REQUIRED
    default = scalar_of(of.default)
    if default is None and _is_no_scalar(of):
        if is_needed:
            raise ValueError(f"{name} is no text, number or boolean")
        why = "it takes no text, number or boolean; the function's own default is used"
        return Parameter(name=name, type="string", description=about, withdrawn=why)
    if name in _CREDENTIALS:
        return Parameter(
            name=name,
            type="string",
            description=about,
            required=is_needed,
            filled_by="credential",
        )
    if name == "timeout":
        return Parameter(name=name, type="number", description=about, filled_by="deadline")
    type_ = _type_said(of.types) if default is None else type_of(default)
    enum = of.accepted if default is None or default in of.accepted else ()
    examples = (
        one
        for one in (default, *of.shown, *enum)
        if one not in (None, "") and is_of(one, type_) and (not enum or one in enum)
    )
    has_list = bool(
        of.accepted or "choice of" in f"{of.text} {about}" or _EVERY.match(str(default))
    )
    is_instrument = isinstance(default, str) and bool(_INSTRUMENT.search(default))
    is_subject = name in _SUBJECTS and default not in (None, "")
    required = is_needed or (is_subject and (is_instrument or not has_list))
    example = next(examples, None)
    if enum:  # it says what the list does
        about = _LIST.sub(" ", about).strip() or name
    if required and example is None:
        raise ValueError(f"{name} is required, but the package has no example of it")
    return Parameter(
        name=name,
        type=type_,
        description=about,
        required=required,
        default=default,
        example=example,
        format=None if has_list else _format(of, example),
        enum=enum or None,
    )


def _is_no_scalar(of: _Argument) -> bool:
    """Whether an argument without a scalar default is a list, a frame or the like."""
    return (
        of.default == COMPUTED
        or isinstance(of.default, list | tuple | dict | set)
        or any(_NO_SCALAR.search(type_) and "str" not in type_ for type_ in of.types)
    )


def _type_said(types: Iterable[str]) -> ScalarType:
    """The type of an argument without a default, by its documentation and its annotation."""
    named: dict[str, ScalarType] = {"int": "integer", "float": "number", "bool": "boolean"}
    words = (re.match(r"\w*", text) for text in types)
    return next((named[word[0]] for word in words if word and word[0] in named), "string")


def _format(of: _Argument, example: Scalar | None) -> str | None:
    """A format that reads more spellings than the one that is shown, where that is sure."""
    shown = example if of.default in (None, REQUIRED) else of.default
    if _IS_DATE.fullmatch(of.name) and shown is None:
        return "yyyymmdd" if "YYYYMMDD" in f"{of.text} {of.about}" else None
    if not isinstance(shown, str):
        return None
    if _IS_DATE.fullmatch(of.name):
        return next((format_ for format_, form in _DATES.items() if form.fullmatch(shown)), None)
    if re.fullmatch(r"\d{6}", shown):
        if "基金代码" in of.text + of.about:
            return "fund-code"
        if "股票代码" in of.text + of.about:
            return "a-share-code"
    return None


def _documented(docstring: str) -> dict[str, str]:
    """What a docstring says of each argument (`name`) and of its type (`type name`)."""
    found = {}
    for kind, name, text in re.findall(
        r"^\s*:(param|type) +(\w+): *([^\n]*)", docstring, re.MULTILINE
    ):
        found[name if kind == "param" else f"type {name}"] = _text(text)
    for name, type_, text in re.findall(
        r"^\s*(\w+): *(string|DataFrame\S*|int|float|list)\b *([^\n]*)", docstring, re.MULTILINE
    ):
        found.setdefault(name, _text(text))
        found.setdefault(f"type {name}", type_)
    return found


def _value_of(argument: str, text: str) -> tuple[Scalar | None, str]:
    """The value in a text such as `symbol="600000"；股票代码`, and the rest of the text."""
    found = re.match(rf"{re.escape(argument)} *= *(\"[^\"]*\"|'[^']*'|[\w.]+)", text)
    if found is None:
        return None, text
    rest = text[found.end() :].lstrip(" ;；,，。")
    return _literal(found[1]), rest


def _called(name: str, example: object) -> dict[str, Scalar]:
    """The constants that the documented example gives to the function. It is parsed, not run."""
    if not isinstance(example, str):
        return {}
    try:
        tree = ast.parse(example)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: dict[str, Scalar] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and name in (
            getattr(node.func, "attr", None),
            getattr(node.func, "id", None),
        ):
            for keyword in node.keywords:
                value = keyword.value
                given = scalar_of(value.value) if isinstance(value, ast.Constant) else None
                if keyword.arg and given is not None:
                    found.setdefault(keyword.arg, given)
    return found


def _literal(text: str) -> Scalar | None:
    try:
        return scalar_of(ast.literal_eval(text))
    except (SyntaxError, ValueError):
        return None
