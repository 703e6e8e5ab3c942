"""Objects as files, and their properties before they are fetched."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator

import pytest

import namely
from namely import Consumer, Producer

CONTENT = os.urandom(300_000)


@pytest.fixture(scope="module")
def consumer() -> Iterator[Consumer]:
    # A request is sent once, and on a busy machine its answer may take seconds.
    with Producer("/lab/f") as producer, Consumer("/lab/f", lifetime_ms=20_000) as consumer:
        producer.publish("/lab/f/x", CONTENT, version=1)
        producer.publish("/lab/f/empty", b"", version=1)
        producer.publish("/lab/f/signed", CONTENT, version=1, manifest="off")
        yield consumer


def test_a_file_is_read_from_the_beginning_to_the_end(consumer: Consumer) -> None:
    with consumer.open("/lab/f/x") as file:
        assert file.name == "/lab/f/x/v=1"
        assert file.read(10) == CONTENT[:10]
        assert file.tell() == 10
        assert file.read() == CONTENT[10:]
        assert file.read() == b""
    with consumer.open("/lab/f/empty") as file:
        assert file.read() == b""


@pytest.mark.parametrize("raw", [True, False])
def test_any_place_is_read(consumer: Consumer, raw: bool) -> None:
    with consumer.open_raw("/lab/f/x") if raw else consumer.open("/lab/f/x") as file:
        reference = io.BytesIO(CONTENT)
        for offset, whence, length in [(100, 0, 50), (299_990, 0, 50), (-1, 2, 5), (7_990, 0, 20), (3, 1, 9), (-200_000, 1, 1), (0, 0, 1), (400_000, 0, 5), (0, 2, 5)]:
            if (offset, whence) == (-200_000, 1):
                file.seek(250_000), reference.seek(250_000)
            assert file.seek(offset, whence) == reference.seek(offset, whence)
            wanted = reference.read(length)
            read = file.read_exactly(length) if isinstance(file, namely.ObjectFile) else file.read(length)
            assert read == wanted, (offset, whence)
            assert file.tell() == reference.tell()


def test_a_place_before_the_beginning_is_no_place(consumer: Consumer) -> None:
    with consumer.open_raw("/lab/f/x") as file:
        for offset, whence in [(-1, 0), (-1, 1), (-300_001, 2)]:
            with pytest.raises(namely.InvalidArgument):
                file.seek(offset, whence)
    with pytest.raises(namely.BadSocket):
        file.read(1)


def test_a_buffer_is_filled_in_place(consumer: Consumer) -> None:
    with consumer.open("/lab/f/x") as file:
        buffer = bytearray(1000)
        assert file.readinto(buffer) == 1000
        assert buffer == CONTENT[:1000]


def test_a_file_stays_its_version() -> None:
    with Producer("/lab/g") as producer, Consumer("/lab/g") as consumer:
        producer.publish("/lab/g/x", CONTENT, version=1)
        with consumer.open("/lab/g/x") as file:
            assert file.read(1) == CONTENT[:1]
            producer.publish("/lab/g/x", b"new", version=2)
            assert file.read() == CONTENT[1:]


def test_what_is_known_of_an_object(consumer: Consumer) -> None:
    info = consumer.stat("/lab/f/x")
    assert (info.name, info.size, info.segments, info.vouching) == ("/lab/f/x/v=1", 300_000, info.segments, "manifests")
    assert info.segments is not None and info.segments > 30
    assert info.signer is not None and info.signer.startswith("/lab/")
    assert not info.is_directory


def test_directories_and_files_that_are_served() -> None:
    with Consumer("/lab/served", timeout_ms=20_000) as consumer:
        infos = consumer.stat_many(["/lab/served", "/lab/served/notes/first.txt", "/lab/served/none"])
        directory, file, none = infos
        assert directory is not None and directory.is_directory
        assert file is not None and not file.is_directory and file.size == 6 and file.mtime_ns
        assert none is None
        many = consumer.stat_many(["/lab/served/numbers.csv"] * 200)
        assert len({info.name for info in many if info}) == 1 and None not in many
        with pytest.raises(namely.NameNotFound) as caught:
            consumer.open("/lab/served/none")
        assert caught.value.errno == errno.ENOENT and isinstance(caught.value, FileNotFoundError)
        assert caught.value.filename == "/lab/served/none"


def test_an_object_that_is_too_large_is_read_as_a_file(consumer: Consumer) -> None:
    with Consumer("/lab/f", object_octets_max=1000) as small:
        with pytest.raises(namely.ObjectTooLarge) as caught:
            small.fetch("/lab/f/x", timeout=20)
        assert caught.value.errno == errno.EFBIG
        with small.open("/lab/f/x") as file:
            assert file.read() == CONTENT


def test_one_packet_is_asked_for(consumer: Consumer) -> None:
    received = consumer.request("/lab/f/signed/v=1/seg=0", timeout=20)
    assert received.name == "/lab/f/signed/v=1/seg=0"
    assert CONTENT.startswith(received.content) and received.content
    assert received.rtt < 20
    for segment in (1, 2):
        consumer.send(f"/lab/f/signed/v=1/seg={segment}")
    assert {consumer.recv(timeout=20).name for _ in range(2)} == {"/lab/f/signed/v=1/seg=1", "/lab/f/signed/v=1/seg=2"}
    with pytest.raises(namely.WouldBlock) as caught:
        consumer.try_recv()
    assert isinstance(caught.value, BlockingIOError)
    with pytest.raises(namely.MessageTooLarge):
        consumer.request("/lab/f/y", bytes(9000))
    with pytest.raises(namely.Timeout):
        consumer.recv(timeout=0.1)


def test_a_file_on_disk_is_what_arrives() -> None:
    with Consumer("/lab/served", timeout_ms=20_000) as consumer, consumer.open("/lab/served/numbers.csv") as file:
        assert file.readline() == b"a,b\n"
        assert sum(1 for _ in file) == 50_000
        assert consumer.stats()["octets"] > 0


def test_a_read_takes_a_mebibyte_at_most() -> None:
    with Producer("/lab/h") as producer, Consumer("/lab/h") as consumer:
        producer.publish("/lab/h/x", bytes(3 << 20), version=1)
        with consumer.open_raw("/lab/h/x") as file:
            assert len(file.read_exactly(1 << 20)) == 1 << 20
            assert len(file.read((1 << 20) + 1) or b"") <= 1 << 20
            file.readall()
            assert file.tell() == 3 << 20
