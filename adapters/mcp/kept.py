"""Keeps what MCP servers list in files, for starts without them and for the replay of snapshots."""

import logging
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import orjson

from manifests.common.files import private_folder, replaced_file
from manifests.common.regular_file import read_text
from manifests.mcp_listing import Listing
from manifests.providers import ProviderSettings

log = logging.getLogger("finport")


def path_of(folder: Path, name: str) -> Path:
    return folder / "providers" / f"{name}.json"


def read(file: Path, provider: ProviderSettings) -> Listing | None:
    """The listing that was kept of the same server, if any."""
    try:
        said: Mapping[str, Any] = orjson.loads(read_text(file))
        if said["origin"] != _origin(provider):
            return None
        return Listing(said["server"], said["said"], tuple(said["tools"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("%s can't be read: %s", file.name, type(error).__name__)
        return None


def write(file: Path, provider: ProviderSettings, listing: Listing) -> None:
    """Keep a listing, unless the file can't be written."""
    said = {
        "origin": _origin(provider),
        "server": listing.server,
        "said": listing.said,
        "tools": listing.tools,
    }
    try:
        private_folder(file.parent)
        with replaced_file(file, 0o600, synced=False) as out:
            out.write(orjson.dumps(said))
    except OSError as error:
        log.warning("%s can't be written: %s", file.name, error.strerror)


def _origin(provider: ProviderSettings) -> str:
    """Tells servers apart without their URL, which may hold a secret."""
    said = provider.mcp or "\0".join(provider.command or ())
    return blake2b(said.encode(), digest_size=16).hexdigest()
