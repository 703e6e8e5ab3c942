"""The Python examples of docs/tour.md and docs/python.md run and print the documented output."""

from __future__ import annotations

import contextlib
import doctest
import io
import pathlib
import re
from collections.abc import Callable

import pytest
from conftest import Server

ROOT = pathlib.Path(__file__).resolve().parents[3]


def blocks(document: str) -> list[str]:
    """The Python of a document."""
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / document).read_text(), re.DOTALL | re.MULTILINE)


def test_the_guides_examples_run(tmp_path: pathlib.Path, serve: Callable[..., Server]) -> None:
    rows = "".join(f"{n},{n * n}\n" for n in range(10_000))
    (tmp_path / "numbers.csv").write_text(f"n,square\n{rows}")
    serve(tmp_path, "/lab/data")
    # A busy machine may answer a request after the default lifetime.
    text = "\n".join(blocks("docs/python.md")).replace("timeout_ms=20_000)", "timeout_ms=20_000, lifetime_ms=20_000)")
    examples = doctest.DocTestParser().get_doctest(text, {}, "docs/python.md", "docs/python.md", 0)
    assert len(examples.examples) > 15
    said = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(examples, out=said.write)
    assert runner.summarize(verbose=False).failed == 0, said.getvalue()


def test_the_readmes_python_runs(tmp_path: pathlib.Path, serve: Callable[..., Server]) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed (NAMELY_PYTHON=all installs it)")
    (tmp_path / "numbers.txt").write_text("".join(f"{n}\n" for n in range(1, 1_000_001)))
    serve(tmp_path, "/lab/data")
    [block] = blocks("docs/tour.md")
    assert len(block.splitlines()) <= 12
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(block, "docs/tour.md", "exec"), {})
    printed = [line.partition("# prints ")[2] for line in block.splitlines() if "# prints " in line]
    assert said.getvalue().splitlines() == printed


def test_the_errors_of_the_guide_exist() -> None:
    import namely

    section = (ROOT / "docs/python.md").read_text().split("## Errors")[1].split("\n```python")[0]
    named = {name for name in re.findall(r"`([A-Z]\w+)`", section) if hasattr(namely, name)}
    classes = {name for name in dir(namely) if isinstance(getattr(namely, name), type) and issubclass(getattr(namely, name), OSError)}
    assert classes - named <= {"Error"}
