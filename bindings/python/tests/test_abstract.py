"""fsspec's own tests for file systems. The file system of names is read-only: its tests of reading run, and writes are refused.

Those tests prepare their files through the file system under test. Here these writes go to the folder that `namely serve` serves.
"""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import Server
from fsspec.tests.abstract import AbstractFixtures, AbstractGetTests

import namely
from namely.filesystem import NamelyFileSystem

PREFIX = "/lab/abstract"


class Prepared(NamelyFileSystem):
    """The file system, and the methods with which fsspec's fixtures make and remove its files."""

    folder: pathlib.Path

    def _local(self, path: str) -> pathlib.Path:
        return self.folder / str(self._strip_protocol(path)).removeprefix(f"{PREFIX}/")

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        self._local(path).mkdir(parents=create_parents)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self._local(path).mkdir(parents=True, exist_ok=exist_ok)

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        self.pipe(path=path, value=b"")

    def pipe(self, path: str, value: bytes, **kwargs: Any) -> None:
        self._local(path).parent.mkdir(parents=True, exist_ok=True)
        self._local(path).write_bytes(value)

    def rm(self, path: str, recursive: bool = False, maxdepth: int | None = None) -> None:
        shutil.rmtree(self._local(path))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pathlib.Path]:
    """The folder that is served below the prefix."""
    folder = tmp_path_factory.mktemp("abstract")
    server = Server(folder, PREFIX)
    yield folder
    server.stop()


class TestGet(AbstractFixtures, AbstractGetTests):  # type: ignore[misc]
    """Files and folders are copied from names as from any other file system."""

    @pytest.fixture
    def fs(self, folder: pathlib.Path) -> Prepared:
        fs = Prepared("/lab", timeout_ms=20_000, skip_instance_cache=True)
        fs.folder = folder
        return fs

    @pytest.fixture
    def fs_path(self, request: pytest.FixtureRequest) -> str:
        """A folder of the test's own: caches of an earlier one do not answer for it."""
        number = request.session.items.index(request.node)
        return f"{PREFIX}/{number}"


WRITES: list[tuple[str, Callable[[NamelyFileSystem], object]]] = [
    ("open", lambda fs: fs.open("/lab/served/new", "xb")),
    ("pipe", lambda fs: fs.pipe("/lab/served/new", b"content")),
    ("touch", lambda fs: fs.touch("/lab/served/new")),
    ("put", lambda fs: fs.put(__file__, "/lab/served/new")),
    ("copy", lambda fs: fs.copy("/lab/served/numbers.csv", "/lab/served/new")),
    ("mv", lambda fs: fs.mv("/lab/served/numbers.csv", "/lab/served/new")),
    ("rm", lambda fs: fs.rm("/lab/served/numbers.csv")),
    ("mkdir", lambda fs: fs.mkdir("/lab/served/new")),
    ("makedirs", lambda fs: fs.makedirs("/lab/served/new")),
    ("rmdir", lambda fs: fs.rmdir("/lab/served/notes")),
]


@pytest.mark.parametrize(("method", "write"), WRITES, ids=[method for method, _ in WRITES])
def test_every_write_is_refused(method: str, write: Callable[[NamelyFileSystem], object]) -> None:
    with pytest.raises(namely.NotSupported, match="read only"):
        write(NamelyFileSystem("/lab", timeout_ms=20_000))
