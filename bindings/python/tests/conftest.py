"""A router of the tests' own, a key chain, and the programs of this checkout (`NAMELY_BIN_DIR`)."""

from __future__ import annotations

import os
import pathlib
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

BINARIES = pathlib.Path(os.environ["NAMELY_BIN_DIR"])

START_LIMIT_S = 60.0
"""Maximum seconds until a program is ready. Test machines are busy."""


def namely(*arguments: str | os.PathLike[str]) -> str:
    """Runs `namely ARGUMENTS`; returns its output."""
    done = subprocess.run([BINARIES / "namely", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"namely {arguments}: {done.stderr}"
    return done.stdout


def eventually(holds: Callable[[], bool], what: str) -> None:
    """Waits until the condition holds."""
    end = time.monotonic() + START_LIMIT_S
    while not holds():
        assert time.monotonic() < end, f"{what}: not so"
        time.sleep(0.02)


def listens(path: pathlib.Path) -> bool:
    """Whether a Unix socket has a listener."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


class Router:
    """A router on a Unix socket, until it is stopped."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.path = folder / "namely.sock"
        self.uri = f"unix://{self.path}"
        self._log = folder / "router.log"
        self.start()

    def start(self) -> None:
        command = [BINARIES / "namely", "up", "--no-config", "--listen", self.uri]
        with self._log.open("a") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        eventually(lambda: listens(self.path), f"the router listens ({self._log.read_text()})")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=START_LIMIT_S)


class Server:
    """`namely serve FOLDER --prefix PREFIX`, until it is stopped."""

    def __init__(self, folder: pathlib.Path, prefix: str, *options: str) -> None:
        command = [BINARIES / "namely", "serve", folder, "--prefix", prefix, *options]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr
        said = ""
        for line in self._process.stderr:
            said += line
            if line.startswith("serving "):
                return
        raise AssertionError(f"namely serve: {said}")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=START_LIMIT_S)
        if self._process.stderr:
            self._process.stderr.close()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, also in the background of a script, where it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session", autouse=True)
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pathlib.Path]:
    """A folder that is the home of all programs: no file of the user is read or written. A key there may sign below `/lab`."""
    folder = tmp_path_factory.mktemp("world")
    for variable in ("XDG_RUNTIME_DIR", "XDG_DATA_HOME", "NDN_CLIENT_TRANSPORT", "NAMELY_PASSPHRASE"):
        os.environ.pop(variable, None)
    os.environ.update(HOME=str(folder), NAMELY_HOME=str(folder / "namely"))
    namely("key", "new", "/lab")
    router = Router(folder)
    os.environ["NAMELY_ROUTER"] = router.uri
    files = folder / "served"
    (files / "notes").mkdir(parents=True)
    (files / "notes" / "first.txt").write_text("hello\n")
    (files / "numbers.csv").write_text("a,b\n" + "".join(f"{i},{i * i}\n" for i in range(50_000)))
    server = Server(files, "/lab/served")
    yield folder
    server.stop()
    router.stop()


@pytest.fixture
def router(tmp_path: pathlib.Path) -> Iterator[Router]:
    """A router of this test's own."""
    router = Router(tmp_path)
    yield router
    router.stop()


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """Starts servers that end with the test."""
    servers: list[Server] = []

    def start(folder: pathlib.Path, prefix: str, *options: str) -> Server:
        servers.append(Server(folder, prefix, *options))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()
