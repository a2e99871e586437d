"""Upstream hosts: the domain that limits apply to, and headers of redirected requests."""

ORIGINAL_HOST = "X-Finport-Host"
"""Header that carries the host a redirected request was meant for."""

LIED = "X-Finport-Lie"
"""Header in which the simulated upstream declares that an answer lies, and how."""

_SHARED_SUFFIXES = {"com", "co", "net", "org", "gov", "edu", "ac"}


def registrable_domain(host: str) -> str:
    """`push2his.eastmoney.com` -> `eastmoney.com`; `data.stats.gov.cn` -> `stats.gov.cn`.

    This rule is right for every host in the manifests, but is not the public suffix list.
    """
    labels = host.split(".")
    shared = len(labels) > 2 and len(labels[-1]) == 2 and labels[-2] in _SHARED_SUFFIXES
    return ".".join(labels[-3:] if shared else labels[-2:])
