"""Checks the environment: a variable with our prefix that nothing reads is a mistake.

Kubernetes sets variables for a service of that name (`FINPORT_SERVICE_HOST`,
`FINPORT_PORT_8000_TCP`). They are not the operator's and are allowed.
"""

import os
import re
from collections.abc import Collection

from gateway.settings_file import SettingsError
from manifests.common.terminal import plain

_SERVICE = re.compile(r"(?:\w+_)?(?:SERVICE_(?:HOST|PORT\w*)|PORT_\d+_(?:TCP|UDP|SCTP)\w*)")
_SERVICE_URL = re.compile(r"(?:tcp|udp|sctp)://.*")


def check_environment(prefix: str, known: Collection[str]) -> None:
    """Raises `SettingsError` if a variable begins with `prefix` and is not in `known`; the error
    shows no value. Names of `known` in lower case match in any case.
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
    from manifests.common.nearest import did_you_mean

    near = did_you_mean(name, map(str.upper, known), own=lambda whole: whole[len(prefix) :])
    return f"{plain(name)} is no setting{near}"
