"""Wheels that are not what they should be."""

import io
import stat
import zipfile
from pathlib import Path

import pytest

from bench.drift import wheel
from bench.drift.functions import Surface, read_functions
from bench.drift.wheel import WheelError
from tests.support.wheels import make_wheel, one_module, wheel_name

OFFER = "from akshare.good import good\nfrom akshare.bad import bad\n"
GOOD = "def good(a=1): ...\n"


def read_with(folder: Path, bad: str | bytes) -> Surface:
    """A release with a good module and this one."""
    modules = {"__init__.py": OFFER, "good.py": GOOD, "bad.py": bad}
    return read_functions(make_wheel(folder, "1.0.0", modules))


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("def bad(:\n", "not valid Python"),
        (b"\xff\xfe\x00def", "not valid Python"),
        ("x = 1\x00", "not valid Python"),
        ("x = " + "(" * 5_000 + ")" * 5_000, ""),
        ("x = " + "-" * 200_000 + "1", "nested too deeply"),
        ("x = " + "9" * 10_000, "not valid Python"),
        ("# " + "x" * 2**20, "longer than 1024 KiB"),
    ],
    ids=["syntax", "bytes", "null", "brackets", "signs", "digits", "long"],
)
def test_a_module_that_cannot_be_read_is_named_and_the_rest_is_read(
    tmp_path: Path, bad: str | bytes, why: str
) -> None:
    surface = read_with(tmp_path, bad)
    assert why in surface.unread["akshare/bad.py"]
    assert surface.functions["good"] is not None
    assert surface.functions["bad"] is None  # it is offered, so it is not gone


@pytest.mark.parametrize(
    "bad",
    [
        "def bad(a=" + " + ".join(["1"] * 3_000) + "): ...\n",
        "def bad(a):\n    if a: pass\n" + "    elif a: pass\n" * 3_000,
    ],
    ids=["sum", "elif"],
)
def test_deep_code_that_parses_is_no_crash(tmp_path: Path, bad: str) -> None:
    surface = read_with(tmp_path, bad)
    assert set(surface.functions) == {"good", "bad"}


def test_lists_made_of_each_other_twice_end(tmp_path: Path) -> None:
    lists = "".join(f"L{n} = [*L{n + 1}, *L{n + 1}]\n" for n in range(60)) + "L60 = ['a']\n"
    own = "SELF = [*SELF, *SELF]\n"
    code = "def bad():\n    t.columns = L0\n    return t\n"
    surface = read_with(tmp_path, lists + code)
    assert surface.functions["bad"] is not None
    surface = read_with(tmp_path, own + code.replace("L0", "SELF"))
    assert set(surface.functions) == {"good", "bad"}


def test_imports_in_a_circle_end(tmp_path: Path) -> None:
    modules = {
        "__init__.py": "from akshare.one import lost, found\nfrom akshare.one import *\n",
        "one.py": "from akshare.two import lost, found\n",
        "two.py": "from akshare.one import lost\n"
        "def found():\n    return other()\ndef other():\n    return found()\n"
        "again = again\n",
    }
    surface = read_functions(make_wheel(tmp_path, "1.0.0", modules))
    assert surface.functions.keys() == {"lost", "found"}
    assert surface.functions["lost"] is None
    assert surface.functions["found"] is not None
    assert "with * are not followed" in surface.unread["akshare/__init__.py"]


def test_a_wheel_that_offers_nothing(tmp_path: Path) -> None:
    with pytest.raises(WheelError, match=r"__init__\.py: it is missing"):
        read_functions(make_wheel(tmp_path, "1.0.0", {}))
    with pytest.raises(WheelError, match="not valid Python"):
        read_functions(make_wheel(tmp_path, "1.0.0", {"__init__.py": "def"}))
    with pytest.raises(WheelError, match="offers no function"):
        read_functions(make_wheel(tmp_path, "1.0.0", {"__init__.py": "import os\n"}))


def test_links_doubles_and_damaged_entries_are_not_read(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, "1.0.0", {"__init__.py": OFFER, "good.py": GOOD})
    link = zipfile.ZipInfo("akshare/bad.py")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(link, "/etc/passwd")
        archive.writestr("akshare/../../up.py", "x = 1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("akshare/good.py", GOOD)
    surface = read_functions(path)
    assert surface.unread["akshare/bad.py"] == "it is a symbolic link"
    assert surface.unread["akshare/good.py"] == "it is in the wheel twice"
    assert list(tmp_path.iterdir()) == [path]  # nothing is unpacked

    content = path.read_bytes()
    place = content.index(b"akshare/__init__.py") + len("akshare/__init__.py")
    path.write_bytes(content[:place] + b"\xff" * 8 + content[place + 8 :])
    with pytest.raises(WheelError, match="it is damaged"):
        read_functions(path)


def test_a_file_that_unpacks_to_more_than_its_header_says(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("akshare/__init__.py", OFFER)
        archive.writestr("akshare/good.py", GOOD)
        archive.writestr("akshare/bad.py", b"#" * (64 * 2**20))
    size = (64 * 2**20).to_bytes(4, "little")
    path = tmp_path / wheel_name("1.0.0")
    path.write_bytes(packed.getvalue().replace(size, (100).to_bytes(4, "little")))
    surface = read_functions(path)
    assert surface.functions["bad"] is None
    assert surface.unread.keys() == {"akshare/bad.py"}


def test_bounds_of_the_whole_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = one_module(tmp_path, "1.0.0", GOOD, "good")
    for bound, limit, message in (
        ("MAX_TOTAL_BYTES", 30, "of sources"),
        ("MAX_ENTRIES", 2, "files, more than 2"),
        ("MAX_WHEEL_BYTES", 100, "larger than"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(wheel, bound, limit)
            with pytest.raises(WheelError, match=message):
                read_functions(path)
