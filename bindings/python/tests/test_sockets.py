"""One socket publishes and another one fetches; every wrong use is an exception with the reason."""

from __future__ import annotations

import array
import errno
import gc
import os
import pathlib
import threading
import time

import pytest
from conftest import namely as run_namely

import namely
from namely import Consumer, Producer


@pytest.mark.parametrize("manifest", ["off", "sha256", "blake3"])
@pytest.mark.parametrize("octets", [0, 1, 8000, 100_001])
def test_what_is_published_is_fetched(octets: int, manifest: str) -> None:
    content = os.urandom(octets)
    with Producer("/lab/s", manifest=manifest) as producer, Consumer("/lab/s") as consumer:
        published = producer.publish(f"/lab/s/{octets}-{manifest}", content)
        assert published.name.startswith(f"/lab/s/{octets}-{manifest}/v=")
        assert consumer.fetch(published.name) == content
        assert consumer.fetch(f"ndn:/lab/s/{octets}-{manifest}", timeout=20) == content


def test_anything_with_a_buffer_is_published() -> None:
    numbers = array.array("I", range(1000))
    with Producer("/lab/s") as producer, Consumer("/lab/s") as consumer:
        for content in (bytearray(b"abc"), memoryview(b"abcdef")[::2], memoryview(numbers)):
            name = producer.publish("/lab/s/b", content).name
            assert consumer.fetch(name) == bytes(content)
        with pytest.raises(TypeError):
            producer.publish("/lab/s/b", "text")  # type: ignore[arg-type]


def test_several_threads_fetch_on_one_socket() -> None:
    contents = [os.urandom(20_000) for _ in range(16)]
    fetched: dict[int, bytes] = {}
    with Producer("/lab/s") as producer, Consumer("/lab/s") as consumer:
        names = [producer.publish(f"/lab/s/t{i}", content).name for i, content in enumerate(contents)]

        def fetch(i: int) -> None:
            fetched[i] = consumer.fetch(names[i])

        threads = [threading.Thread(target=fetch, args=(i,)) for i in range(len(names))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [fetched[i] for i in range(len(contents))] == contents


def test_options_are_set_and_read_by_name() -> None:
    with Consumer("/lab/s", window_max=64, congestion="bbr", trust="digest") as consumer:
        assert (consumer.option("window_max"), consumer.option("congestion")) == ("64", "bbr")
        consumer.set_option("lifetime_ms", 500)
        assert consumer.option("lifetime_ms") == "500"
        with pytest.raises(namely.InvalidArgument, match="only before bind"):
            consumer.set_option("trust", "insecure")
        with pytest.raises(namely.UnknownOption, match="'timeout' here; there are .* timeout_ms,"):
            consumer.set_option("timeout", "1")
        with pytest.raises(namely.UnknownOption):
            consumer.option("manifest")
        with pytest.raises(namely.InvalidArgument, match="window_max.*number"):
            consumer.set_option("window_max", "much")
    with pytest.raises(namely.UnknownOption):
        Producer("/lab/s", colour="red")


def test_a_socket_says_what_it_is() -> None:
    with Consumer("/lab/s") as consumer:
        assert consumer.prefix == "/lab/s"
        assert consumer.router == os.environ["NAMELY_ROUTER"]
        assert repr(consumer) == f"<namely.Consumer /lab/s at {consumer.router}>"
    assert consumer.closed and repr(consumer).endswith(" closed>")


def test_a_closed_socket_is_a_bad_socket() -> None:
    with Consumer("/lab/s") as consumer, Producer("/lab/s") as producer:
        pass
    consumer.close()
    for call in (lambda: consumer.fetch("/lab/s/x"), lambda: producer.publish("/lab/s/x", b"")):
        with pytest.raises(namely.BadSocket) as caught:
            call()
        assert caught.value.errno == errno.EBADF


def test_a_socket_that_nobody_has_any_more_is_closed() -> None:
    Producer("/lab/s")
    gc.collect()
    with Producer("/lab/s"):
        pass


def test_no_router(tmp_path: pathlib.Path) -> None:
    for kind in (Consumer, Producer):
        with pytest.raises(namely.RouterUnreachable) as caught:
            kind("/lab/s", router=f"unix://{tmp_path}/none.sock")
        assert isinstance(caught.value, ConnectionRefusedError)


def test_a_name_outside_the_prefix() -> None:
    with Consumer("/lab/s") as consumer, Producer("/lab/s") as producer:
        for name in ("/lab/t", "/lab", "/"):
            with pytest.raises(namely.OutsidePrefix) as caught:
                consumer.fetch(name)
            assert caught.value.filename == name
            with pytest.raises(namely.OutsidePrefix):
                producer.publish(name, b"")
        with pytest.raises(namely.InvalidArgument):
            consumer.fetch("/lab/s/..")


def test_a_prefix_that_is_too_long() -> None:
    for kind in (Consumer, Producer):
        for prefix in ("/lab" + "/x" * 32, "/lab/" + "x" * 250):
            with pytest.raises(namely.NameTooLong):
                kind(prefix)
    with Consumer("/lab" + "/x" * 31):
        pass


def test_nobody_serves_the_name() -> None:
    with Consumer("/nowhere") as consumer, pytest.raises(namely.NoRoute) as caught:
        consumer.fetch("/nowhere/x", timeout=20)
    assert caught.value.errno == errno.ENETUNREACH
    assert caught.value.filename == "/nowhere/x"


def test_no_key_may_sign_there() -> None:
    with pytest.raises(namely.CertificateMissing, match="namely key new /other"):
        Producer("/other")


def test_a_key_that_is_not_trusted(tmp_path: pathlib.Path) -> None:
    """Wrong key: that of a stranger's key chain with the same identity."""
    os.environ["NAMELY_HOME"], home = str(tmp_path), os.environ["NAMELY_HOME"]
    try:
        run_namely("key", "new", "/lab")
    finally:
        os.environ["NAMELY_HOME"] = home
    with Producer("/lab/s", keychain=tmp_path / "keys") as producer:
        name = producer.publish("/lab/s/k", b"content").name
        with Consumer("/lab/s") as consumer, pytest.raises(namely.VerificationError) as caught:
            consumer.fetch(name, timeout=20)
        assert caught.value.errno in (errno.EKEYREJECTED, errno.ENOKEY)
        with Consumer("/lab/s", keychain=tmp_path / "keys") as friend:
            assert friend.fetch(name) == b"content"


def test_a_key_of_another_namespace(tmp_path: pathlib.Path) -> None:
    """Wrong namespace: the consumer trusts the key, but not for this name."""
    run_namely("key", "new", "/elsewhere")
    with Producer("/lab/s", identity="/elsewhere") as producer, Consumer("/lab/s") as consumer:
        name = producer.publish("/lab/s/k", b"content").name
        with pytest.raises(namely.KeyRejected):
            consumer.fetch(name, timeout=20)


def test_a_version_is_published_once() -> None:
    with Producer("/lab/s") as producer:
        producer.publish("/lab/s/v", b"content", version=1)
        producer.publish("/lab/s/v", b"content", version=1)
        with pytest.raises(namely.VersionExists) as caught:
            producer.publish("/lab/s/v", b"other", version=1)
        assert isinstance(caught.value, FileExistsError) and caught.value.filename == "/lab/s/v"


def test_an_expired_certificate() -> None:
    run_namely("key", "new", "/expired", "--days", "0")
    time.sleep(1.1)
    with pytest.raises(namely.KeyExpired, match="namely cert import") as caught:
        Producer("/expired/s")
    assert caught.value.errno == errno.EKEYEXPIRED
