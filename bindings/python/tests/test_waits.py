"""Waits end: by time, by a signal, by closing, by a router or producer that goes away, and in a child of a fork."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from conftest import Router

import namely
from namely import Consumer, Producer


def test_closing_wakes_who_waits() -> None:
    caught: list[BaseException] = []
    with Producer("/lab/s", timeout_ms=60_000) as producer, Consumer("/lab/s", lifetime_ms=20_000) as consumer:

        def wait() -> None:
            try:
                consumer.fetch("/lab/s/never")
            except namely.Error as error:
                caught.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        # The call waits: the producer has its Interest.
        producer.recv()
    thread.join(timeout=60)
    assert [type(error) for error in caught] == [namely.Closed]


def test_a_time_limit_is_kept() -> None:
    # Without the limits, a call would wait for a lifetime at least.
    with Producer("/lab/s"), Consumer("/lab/s", timeout_ms=300, lifetime_ms=60_000) as consumer:
        for limit in (None, 0.2, 0.0):
            began = time.monotonic()
            with pytest.raises(TimeoutError) as caught:
                consumer.fetch("/lab/s/never", timeout=limit)
            assert type(caught.value) is namely.Timeout
            assert time.monotonic() - began < 60


@pytest.mark.usefixtures("interruptible")
def test_a_signal_whose_handler_raises_ends_a_wait_and_another_does_not() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
    main = threading.main_thread().ident
    assert main is not None
    with Producer("/lab/s"), Consumer("/lab/s", lifetime_ms=60_000) as consumer:
        try:
            timer = threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGUSR1))
            timer.start()
            began = time.monotonic()
            with pytest.raises(namely.Timeout):
                consumer.fetch("/lab/s/never", timeout=2)
            assert time.monotonic() - began >= 1.9
            # A timer of a busy machine may be late.
            timer.join()
            assert seen == [signal.SIGUSR1]
        finally:
            signal.signal(signal.SIGUSR1, before)
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            consumer.fetch("/lab/s/never", timeout=120)
        assert time.monotonic() - began < 60


def test_a_socket_is_the_parents_after_a_fork() -> None:
    with Producer("/lab/s") as producer, Consumer("/lab/s") as consumer:
        name = producer.publish("/lab/s/f", b"content").name
        child = os.fork()
        if child == 0:
            status = 1
            try:
                consumer.fetch(name, timeout=5)
            except namely.Forked as error:
                status = 0 if error.errno == errno.EBADFD else 2
                try:
                    producer.option("manifest")
                    status = 4
                except namely.Forked:
                    pass
            except BaseException:
                status = 3
            finally:
                consumer.close()
                os._exit(status)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert consumer.fetch(name) == b"content", "the parent's is as it was"


def test_two_producers_of_one_process_do_not_overlap() -> None:
    with Producer("/lab/s/a"):
        for prefix in ("/lab/s/a", "/lab/s", "/lab/s/a/b"):
            with pytest.raises(namely.PrefixInUse) as caught:
                Producer(prefix)
            assert caught.value.errno == errno.EADDRINUSE
        with Producer("/lab/s/b"):
            pass


def test_a_producer_that_vanishes(router: Router) -> None:
    with Consumer("/lab/s", router=router.uri) as consumer:
        producer = Producer("/lab/s", router=router.uri)
        producer.publish("/lab/s/v", b"content")
        assert consumer.fetch("/lab/s/v", timeout=20) == b"content"
        producer.close()
        consumer.set_option("lifetime_ms", 300)
        with pytest.raises((namely.NoRoute, namely.Timeout)):
            consumer.fetch("/lab/s/other", timeout=10)


def test_a_router_that_vanishes(router: Router) -> None:
    with Consumer("/lab/s", router=router.uri) as consumer:
        router.stop()
        with pytest.raises((namely.Timeout, namely.NotConnected)):
            consumer.fetch("/lab/s/x", timeout=1)
        router.start()


def test_the_interpreter_ends_with_sockets_open() -> None:

    script = "import namely, threading\nc = namely.Consumer('/lab/s')\np = namely.Producer('/lab/s')\n"
    script += "threading.Thread(target=lambda: c.fetch('/lab/s/never', timeout=1), daemon=True).start()\n"
    done = subprocess.run([sys.executable, "-c", script], timeout=60, check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_producer_that_is_killed_while_it_is_read_from() -> None:
    script = "import namely\np = namely.Producer('/lab/killed')\n"
    script += "print(p.publish('/lab/killed/x', bytes(40_000_000)).name, flush=True)\ninput()\n"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", script], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout
        name = process.stdout.readline().strip()
        with Consumer("/lab/killed", timeout_ms=20_000) as consumer, consumer.open_raw(name) as file:
            assert file.read_exactly(1000) == bytes(1000)
            process.kill()
            read = 1000
            with pytest.raises((namely.Timeout, namely.NoRoute)) as caught:
                while part := file.read(1 << 20):
                    read += len(part)
            assert read < 40_000_000 and caught.value.filename in (name, None)
