"""The installed package: complete, typed, and with examples that run."""

from __future__ import annotations

import doctest
import importlib
import importlib.metadata
import inspect
import pathlib
import pkgutil
import subprocess
import sys

import pytest

import namely

MODULES = ["namely", *(f"namely.{module.name}" for module in pkgutil.iter_modules(namely.__path__))]
SOURCES = pathlib.Path(__file__).parent.parent / "python"


def test_the_wheel_is_what_is_imported() -> None:
    assert pathlib.Path(namely.__file__).is_relative_to(sys.prefix)
    assert namely.__version__ == importlib.metadata.version("namely-ndn")
    assert (pathlib.Path(namely.__file__).parent / "py.typed").exists()


def test_types_are_complete_and_right() -> None:
    for command in (["mypy", "--strict", str(SOURCES / "namely")], ["mypy.stubtest", "namely._native", "--concise"]):
        checked = subprocess.run([sys.executable, "-m", *command], cwd=sys.prefix, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, f"{command}\n{checked.stdout}{checked.stderr}"


@pytest.mark.parametrize("module", [name for name in MODULES if name != "namely._native"])
def test_everything_public_is_documented(module: str) -> None:
    found = importlib.import_module(module)
    assert found.__doc__
    for name, item in vars(found).items():
        if name.startswith("_") or getattr(item, "__module__", None) != module:
            continue
        assert inspect.getdoc(item), f"{module}.{name}"
        for method, function in vars(item).items() if inspect.isclass(item) else ():
            assert method.startswith("_") or inspect.getdoc(getattr(item, method)), f"{module}.{name}.{method}"
            del function


@pytest.mark.parametrize("module", [name for name in MODULES if name != "namely._native"])
def test_examples_run(module: str) -> None:
    found = importlib.import_module(module)
    assert doctest.testmod(found).failed == 0


def test_everything_that_errors_has_is_exported() -> None:
    errors = importlib.import_module("namely.errors")
    classes = {name for name, item in vars(errors).items() if inspect.isclass(item) and issubclass(item, OSError)}
    assert classes <= set(namely.__all__)
    assert namely.__all__ == sorted(namely.__all__)
    assert set(namely.__all__) <= set(dir(namely))
    assert "annotations" not in dir(namely)
