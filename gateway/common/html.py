"""What pages have in common: a policy that forbids every request, texts of others that
stay text, and the shared colours.
"""

import base64
import re
from hashlib import sha256
from importlib.resources import files

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from gateway.common.drawing import CSS
from manifests.common.terminal import plain

_PIECES = re.compile(r".{1,24}", re.DOTALL)


def environment(*packages: str) -> Environment:
    """Templates, those in the files of `packages`, in which nothing but the project's own files is
    markup.
    """
    made = Environment(
        loader=ChoiceLoader([PackageLoader(package, "") for package in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters["breakable"] = breakable
    return made


def breakable(name: str) -> Markup:
    """A name with the places marked where a line may break: after a mark, and within a part that
    is too long for a line.
    """
    parts = re.split(r"(?<=[_./-])", name)
    return Markup("<wbr>").join(piece for part in parts for piece in _PIECES.findall(part))


def policy(css: str, script: str | None = None, *, forms: str = "'none'") -> str:
    """A Content-Security-Policy that allows the page's own style and script, and `forms` to where
    it says, and nothing else.
    """
    allowed = {"style-src": css} | ({} if script is None else {"script-src": script})
    hashes = [
        f"{name} 'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"
        for name, text in allowed.items()
    ]
    return "; ".join(["default-src 'none'", *hashes, "base-uri 'none'", f"form-action {forms}"])


def text_of(package: str, name: str) -> str:
    """A file of the project."""
    return (files(package) / name).read_text(encoding="utf-8")


def style(*sheets: tuple[str, str]) -> str:
    """The style of a page: the shared colours, these sheets (package and name), and drawings."""
    return text_of("gateway.api.static", "palette.css") + "".join(text_of(*s) for s in sheets) + CSS


def rendered(
    template: Template,
    css: str,
    script: str | None = None,
    *,
    forms: str = "'none'",
    **shown: object,
) -> str:
    """A page whose policy allows its own style and script, and forms to where `forms` says."""
    allowed = policy(css, script, forms=forms)
    # These are files of the project.
    parts = {"css": Markup(css), "script": Markup(script or "")}  # noqa: S704
    return plain(template.render(**shown, **parts, policy=allowed))
