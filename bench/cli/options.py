"""Options that commands of `finbench` share, and the settings made of them."""

import math
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from bench.own import importable, is_own
from gateway.cli.options import together
from manifests.common.terminal import echo

if TYPE_CHECKING:
    from bench.judges.registry import JudgeSettings
    from bench.models.prices import Prices
    from bench.suites.suite import Suite
    from manifests import Catalog

Command = Callable[..., None]


MOST = 2**53
"""The largest whole number that a run may be given; `bench.record.MOST` without its imports."""


_UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)", re.ASCII)


class Number(click.FloatRange):
    """A finite number: click accepts `inf` and `nan` within a range."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


class Duration(click.ParamType[float]):
    """Seconds, given as `2s`, `500ms`, `30min`, `24h` or `3d`; at least `least_s`, at most `most_d`
    days.
    """

    name = "duration"

    def __init__(self, least_s: float = 0.0, most_d: int = 36_500) -> None:
        self._least_s, self._most_d = least_s, most_d

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        match = _DURATION.fullmatch(value)
        if match is None:
            self.fail(f"{value!r} is no duration, such as 2s, 500ms, 30min, 24h or 3d", param, ctx)
        seconds = float(match[1]) * _UNITS[match[2]]
        if not self._least_s <= seconds <= self._most_d * _UNITS["d"]:
            self.fail(f"{value} is not from {self._least_s:g}s to {self._most_d}d", param, ctx)
        return seconds


class JsonObject(click.ParamType[dict[str, Any]]):
    """A JSON object."""

    name = "JSON"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, Any]:
        import orjson

        try:
            read = value if isinstance(value, dict) else orjson.loads(value)
        except orjson.JSONDecodeError as error:
            self.fail(f"{value[:100]!r} is not JSON: {error}", param, ctx)
        if not isinstance(read, dict):
            self.fail(f'{value[:100]!r} is no JSON object, such as {{"top_p": 0.7}}', param, ctx)
        return read


class PricesFile(click.ParamType["Prices"]):
    """A file of prices, which is read."""

    name = "FILE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> "Prices":
        from bench.models.prices import Prices, PricesError

        if isinstance(value, Prices):
            return value
        try:
            return Prices.read(Path(str(value)))
        except PricesError as error:
            self.fail(str(error), param, ctx)


with_prices = click.option(
    "--prices",
    type=PricesFile(),
    help="Prices of models, a million tokens each, as TOML or JSON; gives the money.",
)


def whole(least: int = -MOST) -> click.IntRange:
    """A whole number that a run's files can hold."""
    return click.IntRange(min=least, max=MOST)


def needs_checkout(package: str) -> None:
    """End a command with exit code 2 if the package that it runs is not there: the wheel leaves out
    the measurements of Finport itself.
    """
    if find_spec(package) is None:
        command = click.get_current_context().command_path
        text = "measures Finport itself and needs a checkout: clone the repository, `make install`"
        echo(f"finbench: `{command}` {text}", err=True)
        sys.exit(2)


def share(name: str, default: float, text: str) -> Callable[[Command], Command]:
    return click.option(name, type=Number(0, 1), default=default, show_default=True, help=text)


with_dataset = click.option(
    "--dataset",
    type=click.Path(exists=True, path_type=Path),
    help="The suite's dataset: the published questions, or your own file or folder.",
)


with_manifests = click.option(
    "--manifests",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="FinToolBench's manifest file, or one of ours.",
)


with_embeddings = together(
    click.option(
        "--embedding-model",
        metavar="NAME",
        help="By which tools are found: of --embedding-url, else a sentence-transformers model on "
        "this machine. A run's default: the setting embeddings_model.",
    ),
    click.option("--embedding-url", metavar="URL", help="An OpenAI-compatible endpoint."),
)


with_cards = click.option(
    "--cards",
    type=click.Choice(["finport", "paper"]),
    default="finport",
    show_default=True,
    help="What models and judges read of a tool: our description and schema, or with --manifests "
    "those of that file.",
)


def names_of(_: click.Context, __: click.Parameter, value: str) -> list[str]:
    """Callback of an option that takes names with commas between them."""
    return [*dict.fromkeys(name.strip() for name in value.split(",") if name.strip())]


def beside(context: click.Context, _: click.Parameter, value: str | None) -> str | None:
    """Callback of an option that may be `module:Name`: while the command runs, modules beside that
    one are importable, since it may import them late.
    """
    if value is not None and is_own(value):
        context.with_resource(importable())
    return value


choosing = together(
    click.option(
        "--tasks",
        metavar="N|FILE|ID,...",
        help="Only so many tasks, drawn by --seed; or those whose ids are given, or are in a file: "
        'one a line, or JSON Lines with "id" or "task".',
    ),
    click.option(
        "--stratify",
        callback=names_of,
        default="",
        metavar="FIELD,...",
        help="With --tasks N: in the proportions of language, category, source or difficulty.",
    ),
)

by_groups = click.option(
    "--by",
    callback=names_of,
    default="",
    metavar="GROUP,...",
    help="Also show the figures by language, category, source, difficulty, or another group of the "
    "suite.",
)

port_option = click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    show_default=True,
    help="0: choose a free port.",
)

of_suite = click.option(
    "--suite",
    metavar="module:Name",
    callback=beside,
    help="The suite of the run, if it is one of your own.",
)

judging = together(
    click.option(
        "--judge",
        metavar="NAME",
        callback=beside,
        help="rules, llm, another judge of the suite, none, or `module:Name`. "
        "Default: the suite's first that needs no model.",
    ),
    click.option("--judge-model", metavar="NAME", help="Default: --model."),
    click.option("--judge-base-url", metavar="URL", help="Default: --base-url."),
    click.option(
        "--judge-body",
        type=JsonObject(),
        default="{}",
        help="Fields of each request to the judge's model, such as temperature.",
    ),
    click.option(
        "--judge-header",
        multiple=True,
        metavar="NAME=VARIABLE",
        help="A header of these requests, with the value of an environment variable; repeatable.",
    ),
    click.option(
        "--judge-protocol",
        type=click.Choice(["joint", "authors"]),
        default="joint",
        show_default=True,
        help="joint: one request for all decisions. authors: one for each, as theirs.",
    ),
    click.option("--judge-repeats", type=click.IntRange(1, 1_000), default=3, show_default=True),
    click.option(
        "--max-judge-s",
        type=Number(min=0.001),
        default=600.0,
        show_default=True,
        help="How long the judge may take for an episode.",
    ),
)


reading = click.option(
    "--reading",
    type=click.Choice(["program", "paper"]),
    default="program",
    show_default=True,
    help="What metrics are shown where a paper's text and its authors' program differ.",
)


def is_given(context: click.Context, name: str) -> bool:
    """Whether the user gave this option."""
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def suite_in(run_dir: Path, given: str | None) -> "type[Suite]":
    """The suite of a run, which is to be `given` where it is the user's own; a usage error where it
    can't be had.
    """
    from bench.runs.about import RunDirectoryError, RunInfo
    from bench.suites import suite_of_run
    from bench.suites.suite import SuiteError

    try:
        return suite_of_run(RunInfo.read(run_dir).suite, given)
    except RunDirectoryError as error:
        raise click.ClickException(str(error)) from error
    except SuiteError as error:
        raise click.UsageError(str(error)) from error


def check_groups(given: Iterable[str], suite: "type[Suite]") -> None:
    """A usage error for a group that the suite does not have."""
    from manifests.common.nearest import not_among

    groups = suite.all_groups()
    for name in given:
        if name not in groups:
            raise click.UsageError(f"--by: there is no group {not_among(name, groups)}")


def suite_of_chosen(suite: "Suite", options: Mapping[str, Any]) -> "Suite":
    """The suite with the tasks that the options of `choosing` and `--seed` name. Raises
    `SuiteError`; a usage error for a file that can't be read.
    """
    text, stratify = options["tasks"], options["stratify"]
    is_number = text is not None and text.isdecimal() and len(text) <= len(str(MOST))
    if stratify and not is_number:
        raise click.UsageError("--stratify wants --tasks N, a number of tasks to draw")
    if text is None:
        return suite
    if is_number:
        return suite.selected(int(text), seed=options["seed"], stratify=stratify)
    ids, known = {one.strip() for one in text.split(",")} - {""}, {task.id for task in suite.tasks}
    if not ids <= known and _is_path(text):
        ids = _ids_in(Path(text))
    return suite.selected(ids)


def _is_path(text: str) -> bool:
    """Whether a text is that of a file, or could only be."""
    with suppress(OSError, ValueError):
        if Path(text).exists():
            return True
    return "/" in text or text.endswith((".txt", ".jsonl", ".json"))


def _ids_in(file: Path) -> set[str]:
    """The ids of tasks in a file, one a line."""
    import orjson

    from bench.json_lines import JsonLinesError, lines
    from bench.suites.suite import MOST_IDS

    ids = set[str]()
    try:
        for line in lines(file):
            try:
                text = line.text.decode().strip()
                found = orjson.loads(text) if text.startswith("{") else {"id": text}
            except ValueError as error:
                raise line.error(str(error)) from error
            name = found.get("id", found.get("task"))
            if not isinstance(name, str):
                raise line.error('it has no text "id" or "task"')
            ids.add(name)
            if len(ids) > MOST_IDS:
                raise line.error(f"there are over {MOST_IDS} ids")
    except JsonLinesError as error:
        raise click.UsageError(f"--tasks: {error}") from error
    return ids


def judge_settings(options: dict[str, Any], suite: "type[Suite]") -> "JudgeSettings":
    """The settings from the options of `judging`, which are removed from `options`."""
    from bench.environment import JUDGE_KEY
    from bench.judges.registry import JudgeSettings, JudgeSettingsError, judge_named
    from bench.models.settings import check_url

    name, repeats = options.pop("judge"), options.pop("judge_repeats")
    wall_s = options.pop("max_judge_s")
    model = options.pop("judge_model") or options.get("model")
    own_url, body = options.pop("judge_base_url"), options.pop("judge_body")
    headers = headers_of("--judge-header", options.pop("judge_header"))
    protocol = options.pop("judge_protocol")
    base_url = own_url or options.get("base_url")
    try:
        if own_url:
            check_url("--judge-base-url", own_url, JUDGE_KEY)
        kind = judge_named(name, suite.judges)
        is_agents = own_url is None
        return JudgeSettings(
            kind, model, base_url, repeats, is_agents, wall_s, body, headers, protocol
        )
    except (JudgeSettingsError, ValueError) as error:
        raise click.UsageError(str(error)) from error


def catalog_in(path: Path | None, cards: str = "finport") -> "Catalog":
    """The project's tools, or those of a manifest file with its cards if they are wanted; a usage
    error where it can't be read.
    """
    from manifests import Catalog
    from manifests.catalog import CatalogError
    from manifests.common.regular_file import read_text
    from manifests.fintoolbench import read_lines

    if cards == "paper" and (path is None or path.suffix == ".json"):
        raise click.UsageError("--cards paper wants --manifests, FinToolBench's manifest file")
    if path is None:
        return Catalog.load()
    try:
        if path.suffix == ".json":
            return Catalog.load(path)
        imported = read_lines(read_text(path).splitlines(), Catalog.load())
        for name, reason in imported.refused.items():
            echo(f"finbench: {path.name}: {name} is left out: {reason}", err=True)
        if not imported.manifests:
            raise CatalogError(f"{path.name} holds no manifests")
        catalog = Catalog(imported.manifests)
        return catalog.with_cards(imported.cards) if cards == "paper" else catalog
    except CatalogError as error:
        raise click.UsageError(f"--manifests: {error}") from error
    except OSError as error:
        raise click.UsageError(f"--manifests: {path}: {error.strerror}") from error


def headers_of(option: str, given: Iterable[str]) -> dict[str, str]:
    """The variables of headers by their names, from texts `NAME=VARIABLE`."""
    found = dict(text.partition("=")[::2] for text in given)
    if "" in found.values():
        raise click.UsageError(f"{option} wants NAME=VARIABLE, an environment variable's name")
    return found


def pairs(
    option: str, given: Iterable[str], texts: Collection[str] = frozenset()
) -> dict[str, Any]:
    """Values by name from texts `NAME=VALUE`. A value is text for the names `texts`, else JSON, or
    text if it is none.
    """
    import orjson

    found: dict[str, Any] = {}
    for text in given:
        name, is_one, value = text.partition("=")
        if not is_one:
            raise click.UsageError(f"{option} wants NAME=VALUE, not {text!r}")
        try:
            found[name] = value if name in texts else orjson.loads(value)
        except orjson.JSONDecodeError:
            found[name] = value
    return found
