"""The settings file: the one that FINPORT_CONFIG names, else `finport.toml` in the current folder.

A file that is merely found may be someone else's, as in a checkout. So it may not say where secrets
are sent or who may use them; only the operator does, in the environment or in a file named there.
Anything that is not a settings file, or is too large for one, raises `SettingsError`.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CONFIG = "FINPORT_CONFIG"
FOUND = Path("finport.toml")

MAX_BYTES = 2**16

OPERATORS_ONLY = frozenset(
    {
        *("rapidapi_base_url", "akshare_base_url", "embeddings_url", "extractor_url"),
        *("api_keys", "clients_file", "metrics_key", "allow_transactional"),
        *("allowed_hosts", "allowed_origins"),
        *("redis_url", "providers", "tools", "manifests", "openapi", "mcp"),
    }
)
"""What a found file may not say: where secrets are sent, who may use them, and what code is run."""


class SettingsError(Exception):
    """The settings can't be used; the text says which one and why, never its value."""


def settings_file() -> Path | None:
    """The settings file that is read, if any."""
    named = os.environ.get(CONFIG)
    if named:
        return Path(named).absolute()
    return FOUND.absolute() if os.path.lexists(FOUND) else None


def read_settings_file() -> Mapping[str, Any]:
    """Read the settings file. Raises `SettingsError`."""
    from manifests.common.regular_file import read_text

    path = settings_file()
    if path is None:
        return {}
    try:
        said = tomllib.loads(read_text(path, MAX_BYTES).decode())
    except OSError as error:
        raise SettingsError(f"settings file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"settings file {path}: it is not UTF-8") from None
    except RecursionError:
        raise SettingsError(f"settings file {path}: it is nested too deeply") from None
    except ValueError as error:  # invalid TOML, or a number with too many digits
        raise SettingsError(f"settings file {path}: {error}") from None
    if not os.environ.get(CONFIG):
        _check_found(path, said)
    return said


def _check_found(path: Path, said: Mapping[str, Any]) -> None:
    """Raises `SettingsError` if a found file says what only the operator may."""
    given = sorted(OPERATORS_ONLY & {name.lower() for name in said})  # case does not matter
    if given:
        raise SettingsError(
            f"setting {given[0]}: {path} was only found here, and may not say where secrets are "
            f"sent or who may use them; set {CONFIG}={FOUND} to trust the whole file, "
            f"or move the setting to FINPORT_{given[0].upper()}"
        )
