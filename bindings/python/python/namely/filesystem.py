"""Files by name for fsspec, and so for pandas, uproot and others: `ndn:///lab/data/numbers.csv`.

What `namely serve` (or any server of the ndn6 file server protocol) publishes is read-only files and directories: `ls`, `info`,
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

A path is a name (see `namely.names`): what is no plain text in a file's name is written with `%`, as `ls` prints it. One file
that is open is one version of it, whatever is published meanwhile.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem  # type: ignore[import-untyped]

from namely import _native
from namely.errors import NotSupported
from namely.names import canonical, components
from namely.sockets import Consumer, ObjectFile, ObjectInfo, OptionValue

LISTING = "32=ls"
"""The component below a directory under which its listing is published."""


_OF_FSSPEC = ("asynchronous", "batch_size", "listings_expiry_time", "loop", "max_paths", "skip_instance_cache", "use_listings_cache")


class NamelyFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """Directories and files that are published under names.

    `prefix` fences what may be asked for (all names, unless told otherwise); further options are those of `namely.Consumer`:
    `fsspec.open("ndn:///cms/file.root", trust="digest")`.
    """

    protocol = "ndn"
    root_marker = "/"

    def __init__(self, prefix: str = "/", **options: Any) -> None:
        own = {name: options.pop(name) for name in _OF_FSSPEC if name in options}
        # Names live: what a directory holds is asked for again after a while.
        super().__init__(**{"listings_expiry_time": 10, **own})
        self._prefix = prefix
        self._options: dict[str, OptionValue] = options
        self._consumer: Consumer | None = None
        self._process = 0
        self._binding = threading.Lock()

    @property
    def consumer(self) -> Consumer:
        """The socket, bound when it is first needed: another one in each process."""
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
        if not any(character in path for character in "*?["):
            return canonical(path)
        # A pattern, whose characters must stay. In names they are written with `%`.
        return "/" + path.removeprefix("ndn:").strip("/")

    def unstrip_protocol(self, name: str) -> str:
        """The path with its protocol."""
        return f"ndn://{self._strip_protocol(name)}"

    @classmethod
    def _parent(cls, path: str) -> str:
        return "/" + "/".join(components(path)[:-1])

    def ls(self, path: str, detail: bool = True, refresh: bool = False, **kwargs: Any) -> list[Any]:
        """What the directory holds; of a file, the file itself. With `detail`, each is asked for its size and time."""
        path = self._strip_protocol(path)
        entries = None if refresh or path not in self.dircache else self.dircache[path]
        if entries is None:
            info = self.info(path)
            if info["type"] != "directory":
                return [info] if detail else [path]
            listed = _native.listing(self.consumer.fetch(f"{path.rstrip('/')}/{LISTING}"))
            names = [f"{path.rstrip('/')}/{component}" for component, _ in listed]
            if not detail:
                return sorted(names)
            infos = zip(names, self.consumer.stat_many(names))
            # What is gone by now is no entry.
            entries = [self._entry(name, info) for name, info in sorted(infos) if info is not None]
            self.dircache[path] = entries
        return entries if detail else [entry["name"] for entry in entries]

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        """Name, type, size, time of the last change, and the name of the version that is the newest now."""
        path = self._strip_protocol(path)
        return self._entry(path, self.consumer.stat(path))

    def exists(self, path: str, **kwargs: Any) -> bool:
        """Whether its producer says that it exists. Without a producer, and if the answer is not to be believed, that is an error."""
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
        """When the file was changed last."""
        seconds = self.info(path)["mtime"]
        if seconds is None:
            raise NotSupported.because(f"the producer of {path} does not say when it was changed")
        return datetime.fromtimestamp(seconds, tz=timezone.utc)

    def ukey(self, path: str) -> str:
        """What changes when the file does: the name of its version."""
        return str(self.info(path)["version"])

    def sign(self, path: str, expiration: int = 100, **kwargs: Any) -> str:
        """Raises `NotImplementedError`: names need no signed links."""
        raise NotImplementedError("a name is the same for everybody")

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, cache_options: Any = None, **kwargs: Any) -> NamelyFile:
        if mode != "rb":
            raise NotSupported.because("files by name are read only; publish with namely.Producer")
        return NamelyFile(self, path, mode, block_size or "default", cache_options=cache_options, **kwargs)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        """The file's octets from `start` to before `end`; negative ones count from the file's end."""
        path = self._strip_protocol(path)
        if start is None and end is None:
            return self.consumer.fetch(path)
        with self.consumer.open_raw(path) as file:
            return _range(file, start, end)

    def cat_ranges(
        self,
        paths: Sequence[str],
        starts: Sequence[int | None] | int | None,
        ends: Sequence[int | None] | int | None,
        max_gap: int | None = None,
        on_error: str = "return",
        **kwargs: Any,
    ) -> list[Any]:
        """Octets of many ranges, those of one file from one version of it."""
        paths = [self._strip_protocol(path) for path in paths]
        firsts = list(starts) if isinstance(starts, Sequence) else [starts] * len(paths)
        lasts = list(ends) if isinstance(ends, Sequence) else [ends] * len(paths)
        if not len(paths) == len(firsts) == len(lasts):
            raise ValueError("as many paths as starts and ends")
        found: list[Any] = [None] * len(paths)
        files: dict[str, ObjectFile] = {}
        try:
            # In the order of their places, one stream reads most of a file's ranges as they come.
            for i in sorted(range(len(paths)), key=lambda i: (paths[i], firsts[i] or 0)):
                try:
                    if paths[i] not in files:
                        files[paths[i]] = self.consumer.open_raw(paths[i])
                    found[i] = _range(files[paths[i]], firsts[i], lasts[i])
                except OSError as error:
                    if on_error == "raise":
                        raise
                    found[i] = error
        finally:
            for file in files.values():
                file.close()
        return found


class NamelyFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file that is read by name, in blocks that fsspec caches. It is one version of it, whatever comes after."""

    def __init__(self, fs: NamelyFileSystem, path: str, *args: Any, **kwargs: Any) -> None:
        self._stream = fs.consumer.open_raw(path)
        self._reading = threading.Lock()
        size = self._stream.size
        if size is None:
            size = self._stream.seek(0, 2)
        super().__init__(fs, path, *args, size=size, **kwargs)

    @property
    def version(self) -> str:
        """The name of the version that it is."""
        return self._stream.name

    def _fetch_range(self, start: int, end: int) -> bytes:
        with self._reading:
            return _range(self._stream, start, end)

    def close(self) -> None:
        """Closes it; what was on its way is given up."""
        self._stream.close()
        super().close()


def _range(file: ObjectFile, start: int | None, end: int | None) -> bytes:
    """Octets from `start` to before `end`, which count from the file's end if they are negative."""
    size = file.size
    if (start or 0) < 0 or (end or 0) < 0:
        if size is None:
            size = file.seek(0, 2)
        start = max(size + start, 0) if start is not None and start < 0 else start
        end = size + end if end is not None and end < 0 else end
    file.seek(start or 0)
    if end is None:
        return file.readall()
    return file.read_exactly(max(end - (start or 0), 0))
