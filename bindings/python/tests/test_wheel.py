"""The published wheel: for every Python from 3.10 on and old Linux systems, complete and self-contained."""

from __future__ import annotations

import email
import os
import pathlib
import platform
import re
import subprocess
import sys
import venv
import zipfile

import pytest
from conftest import BINARIES

PACKAGE = pathlib.Path(__file__).parent.parent
ROOT = PACKAGE.parent.parent

FETCH = """
import sys, namely
with namely.Consumer("/lab/served") as consumer:
    sys.stdout.write(consumer.fetch("/lab/served/notes/first.txt").decode())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The wheel, of the library that was built to run these tests."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "maturin", "build", "--quiet", "--profile", "dev", "--out", str(folder)]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(BINARIES.parent), "CARGO_NET_OFFLINE": "true"}
    built = subprocess.run(command, cwd=PACKAGE, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (made,) = folder.iterdir()
    return made


def test_it_is_for_every_python_and_for_systems_older_than_this(wheel: pathlib.Path) -> None:
    tag = re.fullmatch(r"namely_ndn-[\d.]+-cp310-abi3-manylinux_2_(\d+)_(\w+?)(\.manylinux\d+_\w+)?\.whl", wheel.name)
    assert tag, wheel.name
    assert tag[2] == platform.machine()
    assert int(tag[1]) <= 35, f"{wheel.name}: it needs a newer libc than Debian 12 has"


def test_it_says_what_an_index_asks(wheel: pathlib.Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        said = email.message_from_bytes(archive.read(metadata))
    assert said["Name"] == "namely-ndn", "PyPI's namely is another project"
    assert said["License-Expression"] == "MIT OR Apache-2.0"
    assert {"LICENSE-MIT", "LICENSE-APACHE"} <= set(said.get_all("License-File"))
    assert any("/sboms/" in name for name in names), "the linked crates are listed"
    assert said["Requires-Python"] == ">=3.10"
    assert said["Summary"] and said["Keywords"] and said.get_all("Classifier")
    assert "namely" in said.get_payload()
    assert "namely/py.typed" in names
    assert "namely/_native.abi3.so" in names


def test_alone_in_an_environment_it_fetches(wheel: pathlib.Path, tmp_path: pathlib.Path) -> None:
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-index", wheel], check=True)
    done = subprocess.run([python, "-I", "-c", FETCH], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "hello\n", done.stderr


def documented() -> list[str]:
    """The commands of docs/python.md from nothing to a table."""
    block = (ROOT / "docs/python.md").read_text().split("```console build\n")[1].split("```")[0]
    return [line.removeprefix("$ ") for line in block.splitlines()]


def test_two_commands_lead_from_the_wheel_to_a_table(wheel: pathlib.Path, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed (NAMELY_PYTHON=all installs it)")
    commands = documented()
    assert [command.split()[0] for command in commands[-2:]] == ["pip", "python3"]
    script = "\n".join(commands).replace("~/namely/target/wheel/", f"{wheel.parent}/")
    # A router and a home of its own, and the Python that made this environment.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NAMELY_")}
    path = f"{BINARIES}:{pathlib.Path(sys.executable).resolve().parent}:{os.environ['PATH']}"
    environment.update(HOME=str(tmp_path), XDG_RUNTIME_DIR=str(tmp_path), NAMELY_ROUTER=f"unix://{tmp_path}/namely.sock", PATH=path)
    log = tmp_path / "log"
    with log.open("w") as output:
        ended = "trap 'status=$?; trap \"\" TERM; kill 0; exit $status' EXIT"
        command = ["bash", "-euo", "pipefail", "-c", f"{ended}\n{script}"]
        done = subprocess.run(command, cwd=tmp_path, env=environment, stdout=output, stderr=output, start_new_session=True, check=False)
    printed = log.read_text()
    assert done.returncode == 0, printed
    assert re.search(r"^mean +500\.5", printed, re.MULTILINE), printed
