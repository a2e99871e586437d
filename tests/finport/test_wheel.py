"""What a user has who installed the wheel: an environment of its own, without this checkout.

The dependencies come from the environment of the tests. Its link to this checkout is in a `.pth`
file, and Python reads those in the environment's own folder only.
"""

import os
import re
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
VERSION = version("finport")
PACKAGES = ("adapters", "bench", "cache", "gateway", "manifests")

SCRIPT = """
import asyncio

from finport import CallContext, Gateway, GatewaySettings, Result


async def main() -> None:
    async with Gateway.open(GatewaySettings(upstream="simulated")) as gateway:
        called = gateway.call("get_coin", {"uuid": "Qwsogvtv82FCd"}, CallContext(client="script"))
        result: Result = await called
        print(result.ok, result.upstream)


asyncio.run(main())
"""

TYPES = """
from typing import Any, assert_type

import finport
from finport import Agent, CallContext, CallError, ErrorCode, Gateway, GatewaySettings, Page, Result
from mine import FirstTool

agent: Agent = FirstTool()
assert_type(finport.__version__, str)


async def main() -> None:
    async with Gateway.open(GatewaySettings(upstream="simulated", max_rows=5)) as gateway:
        assert_type(gateway, Gateway)
        result = await gateway.call("get_coin", {"uuid": "x"}, CallContext(max_rows=3))
        assert_type(result, Result)
        assert_type(result.error, CallError | None)
        assert_type(await gateway.read_result("handle", 0, 10), Page | CallError)
        if result.error:
            assert_type(result.error.code, ErrorCode)
        await gateway.call(1, {})
        finport.Missing
"""


@dataclass(frozen=True)
class Installed:
    """A virtual environment into which the wheel was installed."""

    folder: Path

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    @property
    def packages(self) -> Path:
        return Path(sysconfig.get_path("purelib", "venv", {"base": str(self.folder)}))

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment in the working directory."""
        kept = {name: of for name, of in os.environ.items() if not name.startswith("PYTHON")}
        return subprocess.run(
            [self.folder / "bin" / command[0], *command[1:]],
            env={**kept, "FINPORT_CACHE_DIR": "answers"},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("finport-*.whl")
    environment = Installed(folder / "environment")
    venv.create(environment.folder, symlinks=True)
    uv = [sys.executable, "-m", "uv", "pip", "install", "--offline", "--no-deps", "--no-config"]
    install = [*uv, "--python", environment.python, str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    dependencies = sysconfig.get_path("purelib")
    (environment.packages / "dependencies.pth").write_text(dependencies)
    return environment


def save_agent() -> None:
    """The agent that the documentation shows, as `mine.py` in the working directory."""
    document = (ROOT / "docs" / "bench.md").read_text()
    (agent,) = re.findall(r"```python\n(.*?)```", document, re.DOTALL)
    Path("mine.py").write_text(agent)


def save_shown() -> list[str]:
    """The files that CONTRIBUTING.md shows, in the working directory."""
    shown = re.findall(r"```python\n(# (\w+\.py)\n.*?)```", CONTRIBUTING.read_text(), re.DOTALL)
    for text, name in shown:
        Path(name).write_text(text)
    return [name for _, name in shown]


def beside(kind: str, name: str) -> Path:
    """Something of the user's own in the working directory, which is a script's folder too."""
    if kind == "module":
        path = Path(f"{name}.py")
        path.write_text("")
        return path.resolve()
    path = Path(name)
    path.mkdir()
    (path / "notes.py").write_text("")
    if kind == "package":
        (path / "__init__.py").write_text("")
    return path.resolve()


def test_every_package_is_in_the_wheel_with_its_types(installed: Installed) -> None:
    code = "import finport; print(finport.__version__, finport.__file__)"
    code += "".join(f"; import {package}; print({package}.__file__)" for package in PACKAGES)
    told, *files = installed.run("python", "-c", code).stdout.split()
    assert told == VERSION
    for name, file in zip(("finport", *PACKAGES), files, strict=True):
        assert Path(file) == installed.packages / name / "__init__.py"
        assert (installed.packages / name / "py.typed").is_file()


@pytest.mark.parametrize("command", ["speed", "compression", "drift accuracy"])
def test_measurements_of_finport_need_a_checkout(installed: Installed, command: str) -> None:
    done = installed.run("finbench", *command.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(f"finbench: `finbench {command}` .* needs a checkout: .*\n", done.stderr)


def test_the_demonstration_is_in_the_wheel_and_measurements_are_not(installed: Installed) -> None:
    code = "import bench.cli.demo, sys; print(*sys.modules)"
    imported = installed.run("python", "-c", code)
    assert "bench.cli.demo" in imported.stdout.split(), imported.stderr
    for left_out in ("speed", "compression", "drift/planted"):
        assert not (installed.packages / "bench" / left_out).exists()
        assert (ROOT / "bench" / left_out / "__init__.py").is_file()


def test_every_public_name_can_be_imported_and_nothing_is_before(installed: Installed) -> None:
    code = """if True:
        import finport, sys
        print(*{name.partition(".")[0] for name in sys.modules})
        assert len(finport.__all__) > 60
        assert {*finport.__all__} < {*dir(finport)}
        for name in finport.__all__:
            assert getattr(finport, name).__name__ == name
        try:
            finport.missing
        except AttributeError as error:
            print(error)
        """
    done = installed.run("python", "-c", code)
    assert done.stderr == ""
    imported, missing = done.stdout.splitlines()
    assert not {*PACKAGES, "aiohttp", "pydantic", "orjson", "click"} & {*imported.split()}
    assert missing == "module 'finport' has no attribute 'missing'"


def test_a_script_runs_also_beside_folders_that_hide_nothing(installed: Installed) -> None:
    for package in PACKAGES:
        beside("folder", package)
    Path("script.py").write_text(SCRIPT)
    done = installed.run("python", "script.py")
    assert (done.stdout, done.stderr) == ("True simulated\n", "")


def test_an_agent_of_ones_own_runs_beside_packages_with_the_names_of_ours(
    installed: Installed,
) -> None:
    save_agent()
    for package in PACKAGES:
        beside("package", package)
    run = ("run", "starter", "--agent", "mine:FirstTool", "--upstream", "simulated")
    done = installed.run("finbench", *run, "--episodes", "3", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert "3 episodes: 3 invoked" in done.stdout
    assert "endings: answer 3\n" in done.stdout


@pytest.mark.parametrize(
    ("package", "kind"), [*zip(PACKAGES, 3 * ("package", "module"), strict=False)]
)
def test_what_hides_a_package_of_ours_is_named(
    installed: Installed, package: str, kind: str
) -> None:
    Path("script.py").write_text(SCRIPT)
    hiding = beside(kind, package)
    told = (
        f"{hiding} hides Finport's package '{package}': rename it, or run `python -P`, which does "
        "not search the script's folder or the working directory\n"
    )
    script = installed.run("python", "script.py")
    assert script.returncode == 1
    assert script.stderr.endswith(f"\nImportError: {told}")
    module = installed.run("python", "-m", "finport", "--version")
    assert (module.returncode, module.stdout) == (1, "")
    assert module.stderr == f"finport: {told}"


def test_a_package_that_was_imported_before_is_named_too(installed: Installed) -> None:
    hiding = beside("package", "cache")
    code = "import cache, sys; del sys.path[0]; import finport"
    done = installed.run("python", "-c", code)
    assert f"ImportError: {hiding} hides Finport's package 'cache'" in done.stderr


def test_a_package_run_as_a_module_is_told_as_well(installed: Installed) -> None:
    """Python locates it in the same state in which it locates `python -m finport`."""
    hiding = beside("package", "bench")
    beside("package", "program")
    Path("program/__init__.py").write_text("from finport import Gateway\n")
    Path("program/__main__.py").write_text("")
    done = installed.run("python", "-m", "program")
    assert f"ImportError: {hiding} hides Finport's package 'bench'" in done.stderr


def test_safe_path_and_commands_are_not_disturbed(installed: Installed) -> None:
    for package in PACKAGES:
        beside("package", package)
    Path("script.py").write_text(SCRIPT)
    assert installed.run("python", "-P", "script.py").stdout == "True simulated\n"
    said = f"version {VERSION}\n"
    assert installed.run("python", "-P", "-m", "finport", "--version").stdout.endswith(said)
    for command in ("finport", "finbench"):
        assert installed.run(command, "--version").stdout == f"{command}, {said}"


def test_mypy_sees_the_true_types_and_no_fault_in_the_examples(installed: Installed) -> None:
    save_agent()
    Path("types_of_mine.py").write_text(TYPES)
    cache = ROOT / ".mypy_cache" / "wheel"  # what it knows of the dependencies is 4 s of work
    mypy = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={cache}"]
    shown = save_shown()  # in the same run, which has read the packages' types already
    assert shown == ["sums.py", "first_tool.py"]
    files = ["types_of_mine.py", "mine.py", *shown]
    command = [*mypy, "--python-executable", installed.python, *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert re.findall(r"error: (.*)", done.stdout) == [
        'Argument 1 to "call" of "Gateway" has incompatible type "int"; expected "str"  [arg-type]',
        'Module has no attribute "Missing"  [attr-defined]',
    ], done.stdout
