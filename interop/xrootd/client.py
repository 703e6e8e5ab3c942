"""Reads what an XRootD server has, with XRootD's own Python client and with uproot, and says what came.

    client.py make FILE                 makes a ROOT file
    client.py read URL FOLDER NAME...   compares files at URL with those in FOLDER
    client.py spread URL FILE COUNT OCTETS   reads COUNT ranges all over a file at once; prints how long it took
    client.py gone URL SIZE             reads, waits for a line on standard input, reads on; prints the errors
"""

import pathlib
import random
import sys
import time

from XRootD import client
from XRootD.client.flags import OpenFlags

RANGES = 1000
NUMBERS = ("double", "float", "int32_t", "int64_t")


def opened(url: str) -> client.File:
    file = client.File()
    status, _ = file.open(url, OpenFlags.READ)
    assert status.ok, status.message
    return file


def make(path: str) -> None:
    import uproot

    with uproot.recreate(path) as file:
        file["tree"] = {"x": list(range(100_000)), "y": [i / 7 for i in range(100_000)]}


def vectors(file: client.File, whole: bytes) -> None:
    chance = random.Random(7)
    places = [(chance.randrange(len(whole) - 4096), chance.randrange(1, 4096)) for _ in range(RANGES)]
    status, answer = file.vector_read(chunks=places)
    assert status.ok, status.message
    assert len(answer.chunks) == RANGES
    for (offset, length), chunk in zip(places, answer.chunks):
        assert chunk.buffer == whole[offset : offset + length], (offset, length)
    status, _ = file.vector_read(chunks=[(0, 10), (len(whole) - 5, 10)])
    assert not status.ok, "a vector that ends behind the file is no short read"
    status, answer = file.vector_read(chunks=[(0, 10), (len(whole) - 5, 5)])
    assert status.ok and answer.chunks[1].buffer == whole[-5:]


def spread(url: str, path: str, count: int, octets: int) -> None:
    whole = pathlib.Path(path).read_bytes()
    chance = random.Random(count)
    room = len(whole) // count
    places = [(i * room + chance.randrange(room - octets), octets) for i in range(count)]
    file = opened(url)
    began = time.monotonic()
    status, answer = file.vector_read(chunks=places)
    took = time.monotonic() - began
    assert status.ok, status.message
    for (offset, length), chunk in zip(places, answer.chunks, strict=True):
        assert chunk.buffer == whole[offset : offset + length], (offset, length)
    print(f"seconds={took:.4f}", flush=True)


def read(url: str, folder: str, names: list[str]) -> None:
    import numpy
    import uproot

    for name in names:
        whole = (pathlib.Path(folder) / name).read_bytes()
        file = opened(f"{url}/{name}")
        status, stat = file.stat()
        assert status.ok and stat.size == len(whole), stat
        status, content = file.read()
        assert status.ok and content == whole, name
        status, content = file.read(offset=len(whole) - 3, size=100)
        assert status.ok and content == whole[-3:]
        status, content = file.read(offset=len(whole) + 3, size=100)
        assert status.ok and content == b""
        vectors(file, whole)
        file.close()
        if name.endswith(".root"):
            with uproot.open(f"{url}/{name}") as remote, uproot.open(pathlib.Path(folder) / name) as local:
                assert remote.keys() == local.keys()
                for tree in (key for key, kind in local.classnames().items() if kind == "TTree"):
                    plain = [branch.name for branch in local[tree].branches if branch.typename in NUMBERS]
                    for branch in plain[:20]:
                        arrays = [file[tree][branch].array(library="np") for file in (remote, local)]
                        assert numpy.array_equal(*arrays, equal_nan=True), branch
        print(f"{name}: {len(whole)} octets, {RANGES} ranges")


def gone(url: str, size: int) -> None:
    file = opened(url)
    status, content = file.read(offset=0, size=100)
    assert status.ok and len(content) == 100
    print("open", flush=True)
    sys.stdin.readline()
    began = time.monotonic()
    status, content = file.read(offset=size // 2, size=100_000)
    print(f"read ok={status.ok} octets={len(content or b'')}: {status.message.strip()}")
    status, answer = file.vector_read(chunks=[(size // 2 + i * 100_000, 10) for i in range(20)])
    print(f"vector ok={status.ok}: {status.message.strip()}")
    print(f"seconds={time.monotonic() - began:.1f}", flush=True)


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    if what == "make":
        make(words[0])
    elif what == "read":
        read(words[0], words[1], words[2:])
    elif what == "spread":
        spread(words[0], words[1], int(words[2]), int(words[3]))
    else:
        gone(words[0], int(words[1]))
