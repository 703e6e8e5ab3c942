"""Files by name for fsspec, and so for pandas, uproot and others: `ndn:///lab/data/numbers.csv`.

The files and directories of `namely serve`, or of any server of the ndn6 file server protocol, are read-only: `ls`, `info`,
`open` with random access, `cat`, `cat_ranges`, `get`. Every octet is verified. fsspec finds the class by the protocol `ndn`:

>>> import fsspec
>>> with fsspec.open("ndn:///lab/served/notes/first.txt", "rt") as file:
...     file.read()
'hello\\n'
>>> fs = fsspec.filesystem("ndn")
>>> fs.ls("/lab/served", detail=False)
['/lab/served/notes', '/lab/served/numbers.csv']
>>> fs.cat_file("/lab/served/numbers.csv", 0, 4)
b'a,b\\n'

A path has file names, as they are on the disk of the server and without any escapes: `/lab/data/50% of a[1].csv`. Names of the
network, such as versions, are no paths. An open file stays the same version when others are published.
"""

from __future__ import annotations

import collections
import os
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Any

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem  # type: ignore[import-untyped]

from namely import _native
from namely.errors import InvalidArgument, NotSupported
from namely.sockets import Consumer, ObjectFile, ObjectInfo, OptionValue

RANGES_AT_ONCE = 16
"""Ranges that one call reads at once."""

FOUND_SECONDS = 1.0
"""Seconds for which a found file counts as the newest version: the FreshnessPeriod of its metadata."""

FOUND_MAX = 64
"""Maximum number of found files that stay open for further ranges."""

LISTING = "32=ls"
"""The component below a directory under which its listing is published."""


_OF_FSSPEC = ("asynchronous", "batch_size", "listings_expiry_time", "loop", "max_paths", "skip_instance_cache", "use_listings_cache")


def _file_names(path: str) -> list[str]:
    return [file_name for file_name in path.split("/") if file_name]


class NamelyFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """Directories and files that are published under names.

    `prefix` limits the requested names (by default all are allowed); further options are those of `namely.Consumer`:
    `fsspec.open("ndn:///cms/file.root", trust="digest")`.
    """

    protocol = "ndn"
    root_marker = "/"

    def __init__(self, prefix: str = "/", **options: Any) -> None:
        own = {name: options.pop(name) for name in _OF_FSSPEC if name in options}
        # Directories change, so their listings are requested again after a while.
        super().__init__(**{"listings_expiry_time": 10, **own})
        self._prefix = prefix
        self._options: dict[str, OptionValue] = options
        self._consumer: Consumer | None = None
        self._process = 0
        self._binding = threading.Lock()
        self._found: dict[str, tuple[ObjectFile, float]] = {}
        self._found_by: Consumer | None = None

    @property
    def consumer(self) -> Consumer:
        """The socket, bound at its first use: another one in each process."""
        with self._binding:
            if self._consumer is None or self._process != os.getpid():
                self._consumer = Consumer(self._prefix, **self._options)
                self._process = os.getpid()
            return self._consumer

    @classmethod
    def _strip_protocol(cls, path: str | list[str]) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = os.fspath(path)
        for scheme in ("ndn://", "ndn:"):
            if path.startswith(scheme):
                path = path.removeprefix(scheme)
                break
        if path and not path.startswith("/"):
            raise InvalidArgument.because(f"a path begins with a slash, as /{path} does")
        return "/" + "/".join(_file_names(path))

    @classmethod
    def _name(cls, path: str) -> str:
        """The name of the file at the path."""
        return _native.path_name([os.fsencode(file_name) for file_name in _file_names(path)])

    def unstrip_protocol(self, name: str) -> str:
        """The path with its protocol."""
        return f"ndn://{self._strip_protocol(name)}"

    @classmethod
    def _parent(cls, path: str) -> str:
        return str(cls._strip_protocol(path)).rpartition("/")[0] or "/"

    def ls(self, path: str, detail: bool = True, refresh: bool = False, **kwargs: Any) -> list[Any]:
        """The entries of a directory; for a file, the file itself. With `detail`, the size and time of each are requested."""
        path = self._strip_protocol(path)
        entries = None if refresh or path not in self.dircache else self.dircache[path]
        if entries is None:
            info = self.info(path)
            if info["type"] != "directory":
                return [info] if detail else [path]
            listed = _native.listing(self.consumer.fetch(f"{self._name(path).rstrip('/')}/{LISTING}"))
            paths = sorted(f"{path.rstrip('/')}/{os.fsdecode(file_name)}" for file_name, _ in listed)
            if not detail:
                return paths
            infos = zip(paths, self.consumer.stat_many(map(self._name, paths)))
            # A file that is gone by now is no entry.
            entries = [self._entry(entry, info) for entry, info in infos if info is not None]
            self.dircache[path] = entries
        return entries if detail else [entry["name"] for entry in entries]

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        """Name, type, size, time of the last change, and the name of the version that is the newest now."""
        path = self._strip_protocol(path)
        return self._entry(path, self.consumer.stat(self._name(path)))

    def exists(self, path: str, **kwargs: Any) -> bool:
        """Whether it exists. Without a producer, or if the answer does not verify, the call raises an error."""
        try:
            self.info(path)
        except FileNotFoundError:
            return False
        return True

    @staticmethod
    def _entry(path: str, info: ObjectInfo) -> dict[str, Any]:
        return {
            "name": path,
            "type": "directory" if info.is_directory else "file",
            "size": 0 if info.is_directory else info.size,
            "mtime": None if info.mtime_ns is None else info.mtime_ns / 1e9,
            "version": info.name,
            "signer": info.signer,
        }

    def modified(self, path: str) -> datetime:
        """The time of the file's last change."""
        seconds = self.info(path)["mtime"]
        if seconds is None:
            raise NotSupported.because(f"the producer of {path} does not announce its time")
        return datetime.fromtimestamp(seconds, tz=timezone.utc)

    def ukey(self, path: str) -> str:
        """A text that changes with the file: the name of its version."""
        return str(self.info(path)["version"])

    def sign(self, path: str, expiration: int = 100, **kwargs: Any) -> str:
        """Raises `NotImplementedError`: names need no signed links."""
        raise NotImplementedError("names need no signed links")

    @staticmethod
    def _read_only() -> NotSupported:
        return NotSupported.because("files by name are read only; publish with namely.Producer")

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        """Raises `NotSupported`, as every method that writes."""
        raise self._read_only()

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Raises `NotSupported`."""
        raise self._read_only()

    def rmdir(self, path: str) -> None:
        """Raises `NotSupported`."""
        raise self._read_only()

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Raises `NotSupported`."""
        raise self._read_only()

    def put_file(self, lpath: str, rpath: str, *args: Any, **kwargs: Any) -> None:
        """Raises `NotSupported`."""
        raise self._read_only()

    def _rm(self, path: str) -> None:
        raise self._read_only()

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, cache_options: Any = None, **kwargs: Any) -> NamelyFile:
        if mode != "rb":
            raise self._read_only()
        return NamelyFile(self, path, mode, block_size or "default", cache_options=cache_options, **kwargs)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        """The file's octets from `start` to before `end`; negative positions count from the file's end."""
        path = self._strip_protocol(path)
        if start is None and end is None:
            return self.consumer.fetch(self._name(path))
        return self._range(path, start, end)()

    def cat_ranges(
        self,
        paths: Sequence[str],
        starts: Sequence[int | None] | int | None,
        ends: Sequence[int | None] | int | None,
        max_gap: int | None = None,
        on_error: str = "return",
        **kwargs: Any,
    ) -> list[Any]:
        """Octets of many ranges. All ranges of one file come from the same version."""
        paths = [self._strip_protocol(path) for path in paths]
        firsts = list(starts) if isinstance(starts, Sequence) else [starts] * len(paths)
        lasts = list(ends) if isinstance(ends, Sequence) else [ends] * len(paths)
        if not len(paths) == len(firsts) == len(lasts):
            raise ValueError("as many paths as starts and ends")
        found: list[Any] = [None] * len(paths)
        files: dict[str, ObjectFile] = {}
        under_way: collections.deque[tuple[int, Callable[[], bytes]]] = collections.deque()

        def finish_one() -> None:
            i, read = under_way.popleft()
            try:
                found[i] = read()
            except OSError as error:
                if on_error == "raise":
                    raise
                found[i] = error

        for i, path in enumerate(paths):
            if len(under_way) == RANGES_AT_ONCE:
                finish_one()
            try:
                under_way.append((i, self._range(path, firsts[i], lasts[i], files)))
            except OSError as error:
                if on_error == "raise":
                    raise
                found[i] = error
        while under_way:
            finish_one()
        return found

    def _range(self, path: str, start: int | None, end: int | None, files: dict[str, ObjectFile] | None = None) -> Callable[[], bytes]:
        """Starts to read from `start` to before `end`, of the version in `files`. The returned call waits for the octets."""
        file = None if files is None else files.get(path)
        if file is None:
            file = self._opened(path)
            if files is not None:
                files[path] = file
        start, size = start or 0, file.size
        if size is None and (start < 0 or end is None or end < 0):
            # Negative positions count from the end of the whole file.
            whole = self.consumer.fetch_later(file.name)
            return lambda: whole.wait()[start:end]
        start, end, _ = slice(start, end).indices(max(end or 0, start) if size is None else size)
        return file.read_at_later(start, max(end - start, 0)).wait

    def _opened(self, path: str) -> ObjectFile:
        """Opens the file. A file that was found a moment ago is not requested again."""
        consumer = self.consumer
        now = time.monotonic()
        with self._binding:
            if self._found_by is not consumer:
                self._found_by, self._found = consumer, {}
            self._found = {name: (file, at) for name, (file, at) in self._found.items() if now - at < FOUND_SECONDS}
            if path in self._found:
                return self._found[path][0]
        file = consumer.open_raw(self._name(path))
        with self._binding:
            if len(self._found) < FOUND_MAX:
                self._found[path] = (file, now)
        return file


class NamelyFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file that is read by name, in blocks that fsspec caches. It stays the same version when others are published.

    Sequential blocks are read ahead; other reads fetch little more than the requested octets. A pickled file is opened again as
    the same version: `fs.open(path, version=name)`.
    """

    DEFAULT_BLOCK_SIZE = 128 * 1024

    def __init__(
        self, fs: NamelyFileSystem, path: str, *args: Any, version: str | None = None, size: int | None = None, **kwargs: Any
    ) -> None:
        self._stream = fs.consumer.open_raw(version or fs._name(path))
        self._reading = threading.Lock()
        self._ended = -1
        # A version without a description has no known size; the pickled file has it.
        size = size if self._stream.size is None else self._stream.size
        if size is None:
            size = self._stream.seek(0, 2)
        super().__init__(fs, path, *args, size=size, **kwargs)
        # What remains of `kwargs`. The library's types do not mention it.
        options: dict[str, Any] = vars(self)["kwargs"]
        self.kwargs = {**options, "version": self._stream.name}

    @property
    def version(self) -> str:
        """The name of its version."""
        return self._stream.name

    def _fetch_range(self, start: int, end: int) -> bytes:
        with self._reading:
            follows, self._ended = start == self._ended, end
            if not follows:
                return self._stream.read_at(start, end - start)
            self._stream.seek(start)
            return self._stream.read_exactly(end - start)

    def close(self) -> None:
        """Closes it, and abandons reads under way."""
        self._stream.close()
        super().close()
