"""`finport settings`: every setting with its value, where that comes from, and what it means."""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin

import click
import orjson

from gateway.cli.options import echo_json, print_table, wrong_usage
from manifests.common.origin import MASKED, is_url, told_command, told_url
from manifests.common.terminal import echo

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

TOML_HEAD: Final = """\
# Every setting of Finport with its default. Copy what you change into a file of your own, and name
# it by FINPORT_CONFIG. A variable of the environment, FINPORT_ and the name, comes before the file.
# `finport settings --toml` writes this.
"""

MARKDOWN_HEAD: Final = """\
# Settings

`finport settings` prints this list with the values that count here and where each comes from: an
environment variable (`FINPORT_` and the name), the settings file (the one that `FINPORT_CONFIG`
names, else `finport.toml` in the current folder), or the default.
[finport.example.toml](../finport.example.toml) is the same as a settings file.
`finport settings --markdown` writes this page.
"""


@click.command()
@click.option("--toml", "form", flag_value="toml", help="As a settings file with the defaults.")
@click.option("--markdown", "form", flag_value="markdown", help="As a page with the defaults.")
@click.option("--json", "form", flag_value="json")
def settings(form: Literal["toml", "markdown", "json"] | None) -> None:
    """Print every setting: its value, where that comes from, and what it means.

    No secret is shown.
    """
    from gateway.settings import GatewaySettings, SettingsError
    from gateway.settings_file import read_settings_file

    fields = GatewaySettings.model_fields
    if form == "toml":
        echo(TOML_HEAD)
        for name, field in fields.items():
            meaning = f"{field.description} {_kind(field)}".strip()
            echo(f"# {meaning}\n# {name} = {_toml(_default(field))}\n")
        return
    if form == "markdown":
        echo(f"{MARKDOWN_HEAD}\n| setting | default | meaning |\n|---|---|---|")
        for name, field in fields.items():
            meaning = f"{field.description} {_kind(field)}".strip().replace("|", "\\|")
            echo(f"| `{name}` | {_marked(_default(field))} | {meaning} |")
        return
    with wrong_usage(SettingsError):
        read = GatewaySettings.read()
        in_file = {name.lower() for name in read_settings_file()}
    rows = [
        {
            "setting": name,
            "value": _shown(_servers(read.mcp) if name == "mcp" else getattr(read, name)),
            "from": _source(name, in_file),
            "meaning": f"{field.description}",
        }
        for name, field in fields.items()
    ]
    if form == "json":
        echo_json(rows)
    else:
        print_table(rows, wrapped="meaning")


def _servers(origins: Iterable[str]) -> list[str]:
    """URLs and commands of MCP servers as they are shown."""
    return [o if is_url(o) else " ".join(told_command(o.split())) for o in origins]


def _source(name: str, in_file: set[str]) -> str:
    variable = f"FINPORT_{name.upper()}"
    if any(one.upper() == variable for one in os.environ):
        return variable
    return "file" if name in in_file else "default"


def _default(field: "FieldInfo") -> object:
    made = field.get_default(call_default_factory=True, validated_data={})
    text = str(made)
    home = os.path.expanduser("~")
    return f"~{text.removeprefix(home)}" if text.startswith(f"{home}/") else made


def _plain(value: object) -> Any:
    """A value as JSON has it, with secrets masked, also those in URLs and commands."""
    if hasattr(value, "get_secret_value"):
        return MASKED
    if hasattr(value, "model_dump"):
        plain = _plain(value.model_dump(mode="json", exclude_defaults=True))
        if "command" in plain:
            plain["command"] = told_command(plain["command"])
        return plain
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if isinstance(value, str):
        return told_url(value)
    return value if isinstance(value, int | float | None) else str(value)


def _shown(value: object) -> str:
    plain = _plain(value)
    if plain is None or plain in ([], {}):
        return "-"
    return plain if isinstance(plain, str) else orjson.dumps(plain).decode()


def _toml(value: object) -> str:
    plain = _plain(value)
    if plain is None:
        return '""'
    if isinstance(plain, dict):
        return "{}"
    return orjson.dumps(plain).decode()


def _marked(value: object) -> str:
    shown = _shown(value)
    return "" if shown == "-" else f"`{shown}`"


def _kind(field: "FieldInfo") -> str:
    """The values of a choice, in words; empty for any other setting."""
    values = [*_choices(field.annotation)]
    return f"One of {', '.join(values)}." if values else ""


def _choices(annotation: object) -> Iterator[str]:
    if get_origin(annotation) is Literal:
        yield from map(str, get_args(annotation))
