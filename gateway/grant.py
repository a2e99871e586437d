"""Which tools a caller may use. A tool that may have side effects needs a grant of its own."""

from dataclasses import dataclass

from gateway.errors import CallError, ErrorCode
from manifests.manifest import Manifest
from manifests.selection import EVERY_TOOL, Selection


@dataclass(frozen=True, slots=True)
class Grant:
    """The tools of a selection; transactional ones among them only if `transactional` is set."""

    tools: Selection = EVERY_TOOL
    transactional: bool = False

    def allows(self, manifest: Manifest) -> bool:
        if manifest.source == "finport":  # a table of names, which everybody may read
            return True
        is_harmless = manifest.intent_type != "transactional"
        return (is_harmless or self.transactional) and manifest in self.tools

    def refusal(self, manifest: Manifest) -> CallError | None:
        """Why the tool may not be used, or None."""
        if self.allows(manifest):
            return None
        if manifest not in self.tools:
            text = f"this client may use {self.tools} only, which {manifest.name} is not of"
            return CallError(ErrorCode.FORBIDDEN, text)
        text = (
            f"{manifest.name} may change something and is disabled until it is allowed: by "
            "FINPORT_ALLOW_TRANSACTIONAL=true, or for a key by finport keys add --transactional"
        )
        return CallError(ErrorCode.FORBIDDEN, text)
