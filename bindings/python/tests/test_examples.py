"""The programs of examples/python run as they are."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from conftest import eventually

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "examples" / "python"
PROGRAMS = sorted(path.name for path in FOLDER.glob("*.py"))


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end."""
    return subprocess.run([sys.executable, FOLDER / program, *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts programs that end with the test."""
    started: list[subprocess.Popen[str]] = []

    def start(program: str, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, FOLDER / program, *arguments]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for program in started:
        program.kill()
        program.communicate()


def test_one_example_fetches_what_another_publishes(start: Callable[..., subprocess.Popen[str]]) -> None:
    publisher = start("publish.py", "/lab/example/run7", "3600")
    assert publisher.stdin and publisher.stdout
    publisher.stdin.write("hello\n")
    publisher.stdin.close()
    publisher.stdin = None
    assert publisher.stdout.readline().startswith("/lab/example/run7/v=")
    fetched = run("fetch.py", "/lab/example/run7")
    assert (fetched.returncode, fetched.stdout) == (0, "hello\n"), fetched.stderr


def test_the_service_replies_to_requests(start: Callable[..., subprocess.Popen[str]]) -> None:
    start("service.py", "/lab/example/shout")
    eventually(lambda: run("request.py", "/lab/example/shout", "hello").stdout == "HELLO\n", "the service replies")


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_failure_is_one_line_with_the_next_step(program: str) -> None:
    more = {"publish.py": ["1"], "request.py": ["text"]}.get(program, [])
    failed = run(program, "lab", *more)
    assert failed.returncode == 1 and len(failed.stderr.splitlines()) == 1 and "slash" in failed.stderr, failed.stderr
    assert run(program).stderr.startswith(f"usage: {program} ")
