"""Variables of the environment that begin like ours: one that nothing reads is a mistake.

What Kubernetes says of a service of that name (`FINPORT_SERVICE_HOST`, `FINPORT_PORT_8000_TCP`) is
not the operator's and passes.
"""

import os
import re
from collections.abc import Collection

from gateway.settings_file import SettingsError
from gateway.terminal import plain

_SERVICE = re.compile(r"(?:\w+_)?(?:SERVICE_(?:HOST|PORT\w*)|PORT_\d+_(?:TCP|UDP|SCTP)\w*)")
_SERVICE_URL = re.compile(r"(?:tcp|udp|sctp)://.*")


def check_environment(prefix: str, known: Collection[str]) -> None:
    """Raises `SettingsError`, which shows no value, where a variable begins with `prefix` and is
    none of `known`; those in small letters are read in any case.
    """
    lower = {name for name in known if name.islower()}
    for name, value in sorted(os.environ.items()):
        is_ours = name.upper().startswith(prefix)
        if is_ours and name not in known and name.lower() not in lower:
            own = name[len(prefix) :]
            is_url = own.endswith("PORT") and _SERVICE_URL.fullmatch(value)
            if not (is_url or _SERVICE.fullmatch(own)):
                raise SettingsError(_refusal(name, prefix, known))


def _refusal(name: str, prefix: str, known: Collection[str]) -> str:
    from manifests.nearest import did_you_mean

    near = did_you_mean(name, map(str.upper, known), own=lambda whole: whole[len(prefix) :])
    return f"{plain(name)} is no setting{near}"
