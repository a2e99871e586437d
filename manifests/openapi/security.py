"""Security schemes of an OpenAPI document as credentials of bindings, without any secret."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from manifests.formats import short
from manifests.manifest import TOKEN, Credential
from manifests.openapi.schemas import LeftOutError, Schemas

Alternatives = tuple[tuple[Credential, ...], ...]

MAX_ALTERNATIVES: Final = 20
MAX_SCOPES: Final = 50
MAX_NAME: Final = 256


class SecuritySchemes:
    """The security schemes of one document."""

    def __init__(self, document: Mapping[str, Any], schemas: Schemas) -> None:
        self._schemas = schemas
        self._default = document.get("security")
        components = document.get("components")
        said = components.get("securitySchemes") if isinstance(components, dict) else None
        self._said: Mapping[str, Any] = said if isinstance(said, dict) else {}

    def of(self, operation: Mapping[str, Any]) -> Alternatives:
        """What a request of an operation satisfies, one of several; none if it needs nothing.

        Raises `LeftOutError` if it needs what can't be given.
        """
        given = operation.get("security", self._default)
        if not isinstance(given, list) or not given:
            return ()
        found, reason = [], None
        for alternative in given[:MAX_ALTERNATIVES]:
            if not isinstance(alternative, dict):
                continue
            try:
                found.append(tuple(self._credential(n, s) for n, s in alternative.items()))
            except LeftOutError as error:
                reason = reason or error
        if not found and reason is not None:
            raise reason
        return () if found == [()] else tuple(found)

    def _credential(self, name: str, scopes: Any) -> Credential:
        if len(name) > MAX_NAME:
            raise LeftOutError("the name of its security scheme is too long")
        if name not in self._said:
            raise LeftOutError(f"it needs the security scheme {short(name)}, which is not there")
        scheme = self._schemas.follow(self._said[name])
        match scheme.get("type"), str(scheme.get("scheme", "")).lower(), scheme.get("in"):
            case "apiKey", _, ("header" | "query" | "cookie") as place:
                said = scheme.get("name")
                sent = said if isinstance(said, str) else ""
                if not 0 < len(sent) <= MAX_NAME or (
                    place != "query" and not TOKEN.fullmatch(sent)
                ):
                    raise LeftOutError(f"its security scheme {short(name)} names no {place}")
                return Credential(scheme=name, kind=place, name=sent)
            case "http", "bearer", _:
                return Credential(scheme=name, kind="bearer")
            case "http", "basic", _:
                return Credential(scheme=name, kind="basic")
            case "oauth2", _, _:
                return self._of_flows(name, scheme, scopes)
            case "openIdConnect", _, _:
                return Credential(scheme=name, kind="bearer")
        raise LeftOutError(f"its security scheme {short(name)} is of a kind that is not known")

    @staticmethod
    def _of_flows(name: str, scheme: Mapping[str, Any], scopes: Any) -> Credential:
        """Client credentials if the scheme has that flow; else a token that the operator gives."""
        flows = scheme.get("flows")
        flow = flows.get("clientCredentials") if isinstance(flows, dict) else None
        url = flow.get("tokenUrl") if isinstance(flow, dict) else None
        if not isinstance(url, str):
            return Credential(scheme=name, kind="bearer")
        listed = scopes[:MAX_SCOPES] if isinstance(scopes, list) else []
        asked = tuple(s for s in listed if isinstance(s, str) and len(s) <= MAX_NAME)
        return Credential(scheme=name, kind="oauth2", token_url=url, scopes=asked)

    @staticmethod
    def sent(security: Alternatives) -> set[tuple[str, str]]:
        """The places and names that credentials take in a request."""
        found = {(c.kind, c.name) for one in security for c in one if c.name}
        return found | {("header", "Authorization")}

    @staticmethod
    def absolute(security: Alternatives, resolve: Callable[[str], str]) -> Alternatives:
        """The same, with whole token URLs. Raises what `resolve` raises."""
        return tuple(
            tuple(
                c.model_copy(update={"token_url": resolve(c.token_url)}) if c.token_url else c
                for c in one
            )
            for one in security
        )
