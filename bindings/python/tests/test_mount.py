"""uproot reads the files of a mounted directory about as fast as by fsspec.

It measures time, so it runs where `NAMELY_PYTHON=all` installs uproot: in the suite `python`.
"""

from __future__ import annotations

import pathlib
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest
from conftest import BINARIES, START_LIMIT_S, Server, eventually

Serve = Callable[..., Server]

ROUNDS = 5
"""Files that each of the two reads, in turns. No cache has the octets of either."""

ENTRIES, BRANCHES = 200_000, 8


@pytest.fixture
def mount(tmp_path: pathlib.Path) -> Iterator[Callable[[str], pathlib.Path]]:
    """Mounts directories until the end of the test."""
    running: list[subprocess.Popen[str]] = []

    def start(name: str) -> pathlib.Path:
        folder = tmp_path / "mounted"
        folder.mkdir()
        process = subprocess.Popen([BINARIES / "namely", "mount", name, folder], stderr=subprocess.PIPE, text=True)
        running.append(process)
        eventually(lambda: folder.is_mount() or process.poll() is not None, "the directory is mounted")
        if process.poll() is not None:
            assert process.stderr
            pytest.skip(f"no mount here: {process.stderr.read()}")
        return folder

    yield start
    for process in running:
        process.terminate()
        process.wait(timeout=START_LIMIT_S)
        if process.stderr:
            process.stderr.close()


def test_uproot_reads_a_mount_about_as_fast_as_by_fsspec(
    tmp_path: pathlib.Path, serve: Serve, mount: Callable[[str], pathlib.Path]
) -> None:
    uproot = pytest.importorskip("uproot", reason="uproot is not installed (NAMELY_PYTHON=all installs it)")
    numpy = pytest.importorskip("numpy")
    served = tmp_path / "root"
    served.mkdir()
    random = numpy.random.default_rng(1)
    content = {f"x{i}": random.random(ENTRIES) for i in range(BRANCHES)}
    for kind in ("fsspec", "mount"):
        for number in range(ROUNDS):
            with uproot.recreate(served / f"{kind}{number}.root") as file:
                file["tree"] = content
    serve(served, "/lab/fast")
    mounted = mount("/lab/fast")

    def seconds(url: str) -> float:
        start = time.perf_counter()
        with uproot.open(f"{url}:tree") as tree:
            read = tree.arrays(library="np")
        end = time.perf_counter()
        assert all((read[branch] == content[branch]).all() for branch in content), url
        return end - start

    times: dict[str, list[float]] = {"fsspec": [], "mount": []}
    for number in range(ROUNDS):
        times["fsspec"].append(seconds(f"ndn:///lab/fast/fsspec{number}.root"))
        times["mount"].append(seconds(f"{mounted}/mount{number}.root"))
    # In turns, so that both have the same share of a machine's other work.
    of_fsspec, of_mount = sum(times["fsspec"]), sum(times["mount"])
    print(f"fsspec {of_fsspec:.2f} s, mount {of_mount:.2f} s: {of_fsspec / of_mount:.2f}")
    # Both take nearly the same time: fsspec 1.00 to 1.06 of the mount in five runs of optimized
    # programs. A bound of 1 would fail by chance, so half as much again is permitted.
    assert of_mount <= 1.5 * of_fsspec, times
