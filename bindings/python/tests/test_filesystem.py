"""fsspec, and packages above it, read the files of `namely serve` by name."""

from __future__ import annotations

import datetime
import os
import pathlib
import pickle
import random
from collections.abc import Callable, Iterator
from typing import Any

import fsspec
import pytest
from conftest import Server

import namely
from namely.filesystem import NamelyFileSystem

Serve = Callable[..., Server]


@pytest.fixture
def fs() -> NamelyFileSystem:
    return NamelyFileSystem("/lab", timeout_ms=20_000, skip_instance_cache=True)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pathlib.Path]:
    """A directory that is served as /lab/tree."""
    folder = tmp_path_factory.mktemp("tree")
    (folder / "sub" / "deep").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "a b.txt").write_text("spaces\n")
    (folder / "50%*.txt").write_text("signs\n")
    (folder / "random.bin").write_bytes(random.Random(1).randbytes(700_001))
    (folder / "sub" / "deep" / "x.csv").write_text("x\n1\n2\n")
    server = Server(folder, "/lab/tree")
    yield folder
    server.stop()


def test_the_protocol_is_known() -> None:
    assert isinstance(fsspec.filesystem("ndn"), NamelyFileSystem)
    with fsspec.open("ndn:///lab/served/notes/first.txt", "rt") as file:
        assert file.read() == "hello\n"
    with fsspec.open("simplecache::ndn:///lab/served/notes/first.txt") as file:
        assert file.read() == b"hello\n"


def test_a_tree_is_listed(fs: NamelyFileSystem, tree: pathlib.Path) -> None:
    assert fs.ls("ndn:///lab/tree/", detail=False) == [
        "/lab/tree/50%*.txt",
        "/lab/tree/a b.txt",
        "/lab/tree/empty",
        "/lab/tree/random.bin",
        "/lab/tree/sub",
    ]
    entries = {entry["name"]: entry for entry in fs.ls("/lab/tree")}
    assert entries["/lab/tree/sub"]["type"] == "directory"
    assert (entries["/lab/tree/random.bin"]["type"], entries["/lab/tree/random.bin"]["size"]) == ("file", 700_001)
    assert fs.ls("/lab/tree/empty") == []
    assert fs.ls("/lab/tree/random.bin", detail=False) == ["/lab/tree/random.bin"]
    assert fs.find("/lab/tree/sub") == ["/lab/tree/sub/deep/x.csv"]
    assert fs.glob("ndn:///lab/tree/*.bin") == ["/lab/tree/random.bin"]
    assert fs.glob("/lab/tree/**/x.*") == ["/lab/tree/sub/deep/x.csv"]
    assert fs.du("/lab/tree") == 700_001 + 7 + 6 + 6
    assert fs.cat_file("/lab/tree/a b.txt") == b"spaces\n"
    assert fs.cat_file("/lab/tree/50%*.txt") == b"signs\n"


def test_what_exists(fs: NamelyFileSystem, tree: pathlib.Path) -> None:
    assert fs.exists("/lab/tree/random.bin") and fs.isfile("/lab/tree/random.bin")
    assert fs.isdir("/lab/tree/sub") and not fs.isfile("/lab/tree/sub")
    assert not fs.exists("/lab/tree/none") and not fs.isdir("/lab/tree/none")
    info = fs.info("/lab/tree/random.bin")
    assert info["version"].startswith("/lab/tree/random.bin/v=") and fs.ukey("/lab/tree/random.bin") == info["version"]
    written = datetime.datetime.fromtimestamp(os.stat(tree / "random.bin").st_mtime, tz=datetime.timezone.utc)
    assert abs(fs.modified("/lab/tree/random.bin") - written) < datetime.timedelta(milliseconds=1)
    for call in (fs.info, fs.open, fs.ls, fs.cat_file):
        with pytest.raises(FileNotFoundError):
            call("/lab/tree/none")
    for fetch in (fs.open, fs.cat_file, fs.consumer.fetch, fs.consumer.open):
        with pytest.raises(IsADirectoryError, match="is a directory"):
            fetch("/lab/tree/sub")
    with pytest.raises(namely.NoRoute):
        NamelyFileSystem().exists("/nobody/there")


def test_any_place_of_a_file_is_read(fs: NamelyFileSystem, tree: pathlib.Path) -> None:
    content = (tree / "random.bin").read_bytes()
    with fs.open("/lab/tree/random.bin", block_size=50_000) as file:
        assert file.size == len(content) and file.version.startswith("/lab/tree/random.bin/v=")
        places = random.Random(2)
        for _ in range(30):
            offset, length = places.randrange(len(content)), places.randrange(20_000)
            file.seek(offset)
            assert file.read(length) == content[offset : offset + length]
        file.seek(-5, 2)
        assert file.read() == content[-5:]
    for start, end in [(0, 10), (None, 10), (10, None), (-10, None), (-10, -5), (5, 5), (9, 3), (699_990, 800_000), (800_000, None)]:
        assert fs.cat_file("/lab/tree/random.bin", start, end) == content[start:end], (start, end)


def test_little_more_is_fetched_than_what_is_read(fs: NamelyFileSystem, tree: pathlib.Path) -> None:
    content = (tree / "random.bin").read_bytes()

    def segments(read: Callable[[], object]) -> int:
        before = fs.consumer.stats()
        read()
        after = {key: count - before[key] for key, count in fs.consumer.stats().items()}
        # After a pause of a process, a busy machine asks again.
        asked = after["interests"] - after["retransmissions"]
        assert asked <= after["segments"] + 2, "nothing is asked for and not read but manifests"
        return after["segments"]

    size = len(content) // (fs.consumer.stat("/lab/tree/random.bin").segments or 1)
    assert segments(lambda: fs.cat_file("/lab/tree/random.bin", 100_000, 100_010)) <= 2
    assert segments(lambda: fs.cat_file("/lab/tree/random.bin", 300_000, 400_000)) <= 100_000 // size + 2
    with fs.open("/lab/tree/random.bin") as file:
        assert segments(lambda: file.seek(600_000)) == 0
        assert segments(lambda: file.read(10)) <= (file.blocksize + 10) // size + 2
    with fs.consumer.open_raw("/lab/tree/random.bin") as file:
        assert segments(lambda: file.read_at(7, 3)) == 1
        assert file.read_at(7, 3) == content[7:10] and file.tell() == 0 and file.read_at(700_000, 9) == content[-1:]
        with pytest.raises(namely.InvalidArgument):
            file.read_at(-1, 1)


def test_ranges_come_from_one_version(fs: NamelyFileSystem, tree: pathlib.Path) -> None:
    content = (tree / "random.bin").read_bytes()
    starts = [600_000, 0, 8_000, 300_000, -7]
    ends = [600_100, 10, 16_000, 300_001, None]
    paths = ["/lab/tree/random.bin"] * len(starts)
    assert fs.cat_ranges(paths, starts, ends) == [content[a:b] for a, b in zip(starts, ends)]
    assert fs.cat_ranges(["/lab/tree/a b.txt", "/lab/tree/random.bin"], 1, 3) == [b"pa", content[1:3]]
    found, missing = fs.cat_ranges(["/lab/tree/a b.txt", "/lab/tree/none"], 0, 3)
    assert found == b"spa" and isinstance(missing, FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(["/lab/tree/none"], 0, 3, on_error="raise")


def test_a_tree_is_copied(fs: NamelyFileSystem, tree: pathlib.Path, tmp_path: pathlib.Path) -> None:
    fs.get("/lab/tree/sub", str(tmp_path / "copy"), recursive=True)
    assert (tmp_path / "copy" / "deep" / "x.csv").read_text() == "x\n1\n2\n"


def test_nothing_is_written(fs: NamelyFileSystem, tree: pathlib.Path) -> None:
    for mode in ("wb", "ab", "xb"):
        with pytest.raises(OSError, match="read only"):
            fs.open("/lab/tree/random.bin", mode)


def test_a_filesystem_goes_to_another_process(fs: NamelyFileSystem, tree: pathlib.Path) -> None:
    assert fs.cat_file("/lab/tree/a b.txt") == b"spaces\n"
    assert pickle.loads(pickle.dumps(fs)).cat_file("/lab/tree/a b.txt") == b"spaces\n"
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if fs.cat_file("/lab/tree/a b.txt") == b"spaces\n" else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_an_open_file_goes_to_another_process(fs: NamelyFileSystem, tree: pathlib.Path) -> None:
    content = (tree / "random.bin").read_bytes()
    with fs.open("/lab/tree/random.bin") as file:
        file.seek(600_000)
        once = pickle.loads(pickle.dumps(file))
        twice = pickle.loads(pickle.dumps(once))
        for copy in (once, twice):
            with copy:
                assert (copy.version, copy.size, copy.tell()) == (file.version, len(content), 600_000)
                assert copy.read(10) == content[600_000:600_010]


def test_a_path_begins_with_a_slash(fs: NamelyFileSystem) -> None:
    for path in ("lab/tree", "ndn://lab/tree", "random.bin"):
        with pytest.raises(namely.InvalidArgument, match="begins with a slash"):
            fs.info(path)
    assert [fs._strip_protocol(path) for path in ("ndn://", "ndn:///", "", "/", "//lab//tree/")] == ["/"] * 4 + ["/lab/tree"]


ODD = ["plain.csv", "sp ace.txt", " lead", "%41.csv", "A.csv", "a[1].csv", "a1.csv", "q?.txt", "st*r", "...", "....", "v=1", "seg=0"]
ODD += ["32=ls", "ü€.txt", "new\nline", "#hash", "plus+", "100%", "a%2Fb", "back\\slash", "semi;colon", "am&p", "quo\"te", "~tilde", "a:b"]
"""Names of files that a URI, a shell or a pattern would read otherwise."""


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A directory of files and folders with odd names, which is served as /lab/odd."""
    folder = tmp_path_factory.mktemp("odd")
    for inside in ("sub [x]", "sub [x]/%20", "v=2", "empty 100%"):
        (folder / inside).mkdir()
    for inside in (folder, folder / "sub [x]" / "%20"):
        for i, name in enumerate(ODD):
            (inside / name).write_bytes(b"%d " % i * i)
    server = Server(folder, "/lab/odd")
    yield str(folder)
    server.stop()


class Both:
    """A file system of names and one of the same files on this machine. Each call has to agree."""

    def __init__(self, fs: NamelyFileSystem, folder: str) -> None:
        self.fs, self.local, self.folder = fs, fsspec.filesystem("file"), folder

    def there(self, value: Any) -> Any:
        """A value of the local file system with its paths as names."""
        if isinstance(value, str):
            return "/lab/odd" + value.removeprefix(self.folder) if value.startswith(self.folder) else value
        if isinstance(value, dict):
            return {self.there(key): self.there(item) for key, item in value.items()}
        return sorted(map(self.there, value)) if isinstance(value, list) else value

    def agree(self, method: str, path: str, *arguments: Any, **options: Any) -> Any:
        """The result of a method for a local path, or the error; the other file system has the same."""

        def result(fs: Any, path: str) -> Any:
            try:
                return getattr(fs, method)(path, *arguments, **options)
            except FileNotFoundError:
                return FileNotFoundError
            except IsADirectoryError:
                return IsADirectoryError

        expected, found = self.there(result(self.local, path)), result(self.fs, self.there(path))
        assert (sorted(found) if isinstance(found, list) else found) == expected, (method, path, arguments, options)
        return expected


@pytest.fixture
def both(fs: NamelyFileSystem, odd: str) -> Both:
    return Both(fs, odd)


def test_folders_agree_with_a_local_file_system(both: Both, odd: str) -> None:
    # Some versions of fsspec find the folder itself, too.
    folders = sorted({odd, *(path for path in both.local.find(odd, withdirs=True) if os.path.isdir(path))})
    assert len(folders) == 5
    for folder in folders:
        for method in ("ls", "listdir"):
            both.agree(method, folder, detail=False)
        for options in ({}, {"withdirs": True}, {"maxdepth": 1}):
            both.agree("find", folder, **options)
        both.agree("expand_path", folder, recursive=True)
        both.agree("du", folder)
        both.agree("du", folder, total=False)
        both.agree("cat", folder, recursive=True, on_error="omit")
        found = [(path, sorted(inside), sorted(files)) for path, inside, files in both.fs.walk(both.there(folder))]
        expected = [(both.there(path), sorted(inside), sorted(files)) for path, inside, files in both.local.walk(folder)]
        assert sorted(found) == sorted(expected)
    for pattern in ("*", "*.csv", "a[1].csv", "a[[]1].csv", "%41*", "q[?].txt", "st[*]r", "[!a]*", "??", "**", "**/*.csv", "sub*/*", "v=*", "no*"):
        both.agree("glob", f"{odd}/{pattern}")


def test_files_agree_with_a_local_file_system(both: Both, odd: str) -> None:
    for path in [odd, *both.local.find(odd, withdirs=True), f"{odd}/none", f"{odd}/%70lain.csv"]:
        for method in ("exists", "isfile", "isdir", *(("_parent",) if path != odd else ())):
            both.agree(method, path)
        there = both.there(path)
        if not both.local.exists(path):
            for method in ("info", "ls", "cat_file", "open", "size", "modified"):
                with pytest.raises(FileNotFoundError):
                    getattr(both.fs, method)(there)
            continue
        local, info = both.local.info(path), both.fs.info(there)
        assert (info["name"], info["type"]) == (there, local["type"])
        assert abs(both.fs.modified(there) - both.local.modified(path)) < datetime.timedelta(milliseconds=1)
        if local["type"] == "directory":
            continue
        for method in ("size", "cat_file", "read_bytes", "read_text", "head", "tail", "ls"):
            both.agree(method, path, **({"detail": False} if method == "ls" else {}))
        for start, end in ((1, 3), (-3, None), *(((None, -2),) if local["size"] else ())):
            both.agree("cat_file", path, start, end)
        both.agree("read_block", path, 0, 5)
        with both.fs.open(there) as file, open(path, "rb") as expected:
            assert file.read() == expected.read()
    files = both.local.find(odd)
    assert both.fs.sizes(list(map(both.there, files))) == both.local.sizes(files)
    ranges = both.fs.cat_ranges(list(map(both.there, files)), 1, 4)
    assert ranges == both.local.cat_ranges(files, 1, 4)


def test_a_copy_has_the_names_of_the_files(both: Both, odd: str, tmp_path: pathlib.Path) -> None:
    def tree(folder: str) -> dict[str, bytes | None]:
        paths = pathlib.Path(folder).rglob("*")
        return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in paths}

    both.fs.get("/lab/odd", f"{tmp_path}/by-name", recursive=True)
    both.local.get(odd, f"{tmp_path}/local", recursive=True)
    assert tree(f"{tmp_path}/by-name") == tree(f"{tmp_path}/local") == tree(odd)
    both.fs.get_file("/lab/odd/a[1].csv", f"{tmp_path}/one")
    assert (tmp_path / "one").read_bytes() == pathlib.Path(odd, "a[1].csv").read_bytes()


def test_what_is_not_believed_is_not_read(tree: pathlib.Path, tmp_path: pathlib.Path) -> None:
    stranger = NamelyFileSystem("/lab", keychain=tmp_path / "keys", timeout_ms=20_000)
    with pytest.raises(PermissionError) as caught:
        stranger.cat_file("/lab/tree/a b.txt")
    assert isinstance(caught.value, namely.VerificationError)
    with pytest.raises(namely.VerificationError):
        stranger.exists("/lab/tree/a b.txt")


def test_pandas_reads_by_name() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed (NAMELY_PYTHON=all installs it)")
    frame = pandas.read_csv("ndn:///lab/served/numbers.csv")
    assert frame.shape == (50_000, 2)
    assert (frame.b == frame.a**2).all()


def root_files() -> pathlib.Path | None:
    """The ROOT files beside the checkout, or in the folder NAMELY_SHARED_DATA."""
    beside = pathlib.Path(__file__).resolve().parents[4] / "shared" / "data"
    folder = pathlib.Path(os.environ.get("NAMELY_SHARED_DATA", beside)) / "hep"
    return folder if folder.is_dir() else None


def test_uproot_reads_by_name(tmp_path: pathlib.Path, serve: Serve) -> None:
    uproot = pytest.importorskip("uproot", reason="uproot is not installed (NAMELY_PYTHON=all installs it)")
    numpy = pytest.importorskip("numpy")
    folder = tmp_path / "root"
    folder.mkdir()
    with uproot.recreate(folder / "small.root") as file:
        file["tree"] = {"x": numpy.arange(100_000), "y": numpy.sqrt(numpy.arange(100_000))}
    serve(folder, "/lab/root")
    with uproot.open("ndn:///lab/root/small.root:tree") as remote, uproot.open(f"{folder}/small.root:tree") as local:
        assert remote.num_entries == local.num_entries == 100_000
        for branch in ("x", "y"):
            assert (remote[branch].array(library="np") == local[branch].array(library="np")).all()


def test_uproot_reads_the_experiments_files_by_name(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    uproot = pytest.importorskip("uproot", reason="uproot is not installed (NAMELY_PYTHON=all installs it)")
    folder = root_files()
    if folder is None:
        pytest.skip("no ROOT files beside this checkout (NAMELY_SHARED_DATA)")
    serve(folder, "/lab/cms")
    awkward = pytest.importorskip("awkward")
    with uproot.open("ndn:///lab/cms/uproot-HZZ.root") as remote, uproot.open(folder / "uproot-HZZ.root") as local:
        muons = [file["events"].arrays(["NMuon", "Muon_Px", "Muon_Py"]) for file in (remote, local)]
        assert len(muons[0]) == 2421
        assert awkward.array_equal(*muons)
    name = "nanoAOD_2015_CMS_Open_Data_ttbar.root"
    # uproot reads little but the file's own description. Only that is fetched, and the rest of the
    # segments at its edges.
    asked: list[int] = []
    cat_file = NamelyFileSystem.cat_file

    def counted(self: NamelyFileSystem, path: str, start: int, end: int, **kwargs: object) -> bytes:
        asked.append(end - start)
        return cat_file(self, path, start, end, **kwargs)

    monkeypatch.setattr(NamelyFileSystem, "cat_file", counted)
    fs = fsspec.filesystem("ndn")
    before = fs.consumer.stats()["octets"]
    with uproot.open(f"ndn:///lab/cms/{name}") as remote, uproot.open(folder / name) as local:
        momenta = [file["Events"]["Muon_pt"].array() for file in (remote, local)]
        assert awkward.array_equal(*momenta) and len(momenta[0]) > 0
    fetched, segment = fs.consumer.stats()["octets"] - before, 8_000
    assert sum(asked) > 0 and fetched <= sum(asked) + 2 * segment * len(asked), f"{fetched} fetched, {sum(asked)} asked for"
