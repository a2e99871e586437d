"""The client that openapi-python-client generates; what it could not parse is missing here."""

import json
import subprocess
import sys
from importlib import import_module
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, get_args

import httpx
from program import COIN, DEADLINE_S, HISTORY, WRONG, WRONG_KEY, bearer, run

GENERATE = (sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none")
TYPED = f"names:{COIN[0]},{HISTORY[0]}"
ANY = "/v1/tools/{name}"


class Generated:
    """A package generated from a gateway's description, as a client of that gateway."""

    def __init__(self, url: str, key: str, folder: Path) -> None:
        asked = {"params": {"tools": TYPED}, "headers": bearer(key)}
        described = httpx.get(f"{url}/openapi.json", **asked).raise_for_status()
        document = folder / "openapi.json"
        document.write_bytes(described.content)
        self.package = folder / "generated"
        words = (*GENERATE, "--path", str(document), "--output-path", str(self.package))
        subprocess.run(words, stdout=sys.stderr, check=True, timeout=DEADLINE_S)
        sys.path.insert(0, str(folder))
        self.paths = described.json()["paths"]
        self.client = self.known_as(url, key)

    def known_as(self, url: str, key: str) -> Any:
        return import_module("generated").AuthenticatedClient(base_url=url, token=key)

    def operation(self, method: str, path: str) -> ModuleType:
        """The module of an operation, which stands below the first of its tags."""
        name = self.paths[path][method]["operationId"]
        (found,) = (self.package / "api").rglob(f"{name}.py")
        return import_module(".".join(found.relative_to(self.package.parent).with_suffix("").parts))

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        return self.post(f"/v1/tools/{tool}", arguments)

    def post(self, path: str, arguments: dict[str, Any], *in_path: str) -> Any:
        send = self.operation("post", path).sync
        taken = signature(send).parameters["body"].annotation
        model = next(iter(get_args(taken)), taken)  # `Model | Unset` where a body may be left out
        return send(*in_path, client=self.client, body=model.from_dict(arguments))

    def get(self, path: str, *in_path: str, **query: Any) -> Any:
        return self.operation("get", path).sync(*in_path, client=self.client, **query)

    def names(self) -> list[str]:
        page, names = self.get("/v1/tools"), []
        while page.next_cursor:
            names += [tool.name for tool in page.tools]
            page = self.get("/v1/tools", cursor=page.next_cursor)
        return names + [tool.name for tool in page.tools]


def told(parsed: Any) -> str:
    if parsed is None:
        return ""
    return json.dumps(parsed.to_dict(), ensure_ascii=False, separators=(",", ":"))


async def visit(url: str, key: str) -> dict[str, Any]:
    with TemporaryDirectory() as folder:
        generated = Generated(url, key, Path(folder))
        table = generated.call(*HISTORY)
        answers = [
            generated.call(*COIN),
            table,
            generated.post(ANY, COIN[1], COIN[0]),
            generated.get(ANY, COIN[0]),
            generated.get("/v1/results/{handle}", table.handle),
            generated.get("/healthz"),
            generated.get("/readyz"),
        ]
        refused = generated.post(ANY, WRONG[1], WRONG[0])  # a typed body has no place for it
        listed = generated.names()
        generated.client = generated.known_as(url, WRONG_KEY)
        return {
            "listed": listed,
            "called": list(map(told, answers)),
            "error": told(refused),
            "wrong_key": told(generated.call(*COIN)),
        }


run(visit)
