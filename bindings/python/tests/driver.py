"""The driver of the Python binding: reads steps, prints answers (bindings/conformance/README.md)."""

from __future__ import annotations

import errno
import itertools
import os
import resource
import select
import sys
import threading
import zlib
from collections import deque
from collections.abc import Callable

import namely
from namely import Consumer, Fetch, Offer, Producer, Request

_TABLE = bytes(range(256)) * 2


class Unknown(Exception):
    """A wrong step, or one that this driver does not know."""


class Unbound:
    """A socket of which only the options are known."""

    def __init__(self, role: str, reliable: bool) -> None:
        self.role = role
        self.options: dict[str, str] = {"reliable": "true" if reliable else "false"}

    def set(self, option: str, value: str) -> None:
        namely.options(self.role, **{**self.options, option: value})
        self.options[option] = value

    def bind(self, prefix: str) -> Consumer | Producer:
        return (Consumer if self.role == "consumer" else Producer)(prefix, **self.options)


def octets(word: str) -> bytes:
    """CONTENT: `@SIZE:SEED`, `=TEXT` or `-`."""
    if word == "-":
        return b""
    if word.startswith("="):
        return word[1:].encode()
    size, seed = (int(number) for number in word.removeprefix("@").split(":"))
    blocks = (_TABLE[(start := (seed + 7 * k + 13 * (k // 256)) % 256) : start + 256] for k in range(size // 256 + 1))
    return b"".join(blocks)[:size]


def result(content: bytes | None) -> str:
    """RESULT: length and CRC-32."""
    content = content or b""
    return f"{len(content)} {zlib.crc32(content):08x}"


def parameters(word: str) -> bytes | None:
    return None if word == "-" else octets(word)


def options(words: tuple[str, ...]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words)  # type: ignore[misc]


def without_digest(name: str) -> str:
    """The requested name, without the digest of the parameters."""
    before, _, last = name.rpartition("/")
    return before if last.startswith("params-sha256=") else name


class Driver:
    """The sockets of one process; each step is a method of its name, with `_` for `-`."""

    def __init__(self) -> None:
        self.step_reset()

    def answer(self, line: str) -> str:
        """The answer to one step."""
        word, *arguments = line.split(" ")
        step: Callable[..., str | None] | None = getattr(self, "step_" + word.replace("-", "_"), None)
        try:
            if step is None:
                raise Unknown("there is no such step here")
            said = step(*arguments)
        except (Unknown, TypeError, AttributeError) as error:
            return f"unknown {error}"
        except OSError as error:
            print(f"{line}: {error}", file=sys.stderr, flush=True)
            return f"error {errno.errorcode.get(error.errno or 0, error.errno)}"
        return f"ok {said}" if said else "ok"

    def any(self, socket: str) -> Consumer | Producer | Unbound:
        if socket not in self.sockets:
            raise OSError(errno.EBADF, "there is no such socket any more")
        return self.sockets[socket]

    def bound(self, socket: str) -> Consumer | Producer:
        found = self.any(socket)
        if isinstance(found, Unbound):
            raise Unknown("it is not bound")
        return found

    def consumer(self, socket: str) -> Consumer:
        found = self.bound(socket)
        if not isinstance(found, Consumer):
            raise Unknown("it is no consumer")
        return found

    def producer(self, socket: str) -> Producer:
        found = self.bound(socket)
        if not isinstance(found, Producer):
            raise Unknown("it is no producer")
        return found

    def step_hello(self) -> str:
        return "python fork,whole"

    def step_reset(self) -> None:
        for socket in list(getattr(self, "sockets", {})):
            self.step_close(socket)
        self.sockets: dict[str, Consumer | Producer | Unbound] = {}
        self.held: dict[tuple[str, str], namely.ObjectFile] = {}
        self.begun: dict[tuple[str, str], Fetch] = {}
        self.requests: dict[str, deque[Request]] = {}
        self.offers: dict[str, deque[Offer]] = {}

    def step_open(self, socket: str, role: str, protocol: str) -> None:
        self.sockets[socket] = Unbound(role, protocol == "reliable")

    def step_set(self, socket: str, option: str, value: str) -> None:
        found = self.any(socket)
        if isinstance(found, Unbound):
            found.set(option, value)
        else:
            found.set_option(option, value)

    def step_get(self, socket: str, option: str) -> str:
        found = self.any(socket)
        if not isinstance(found, Unbound):
            return found.option(option)
        values = namely.options(found.role, **found.options)
        if option not in values:
            raise namely.UnknownOption(errno.ENOPROTOOPT, option)
        return values[option]

    def step_bind(self, socket: str, prefix: str) -> None:
        found = self.any(socket)
        if not isinstance(found, Unbound):
            raise Unknown("it is bound")
        self.sockets[socket] = found.bind(prefix)

    def step_fetch(self, socket: str, name: str) -> str:
        return result(self.consumer(socket).fetch(name))

    def step_try_fetch(self, socket: str, name: str) -> str:
        consumer = self.consumer(socket)
        if (socket, name) not in self.begun:
            self.begun[socket, name] = consumer.fetch_later(name)
        try:
            fetched = self.begun[socket, name].try_take()
        except namely.WouldBlock:
            raise
        except namely.Error:
            del self.begun[socket, name]
            raise
        del self.begun[socket, name]
        return result(fetched)

    def step_read(self, socket: str, name: str, offset: str, length: str) -> str:
        with self.consumer(socket).open(name) as file:
            file.seek(int(offset))
            return result(file.read(int(length)))

    def step_pread(self, socket: str, name: str, offset: str, length: str) -> str:
        with self.consumer(socket).open_raw(name) as file:
            return result(file.read_at(int(offset), int(length)))

    def step_ranges(self, socket: str, name: str, *numbers: str) -> str:
        places = [int(number) for number in numbers]
        with self.consumer(socket).open_raw(name) as file:
            return result(b"".join(file.read_ranges(list(zip(places[::2], places[1::2])))))

    def step_hold(self, socket: str, name: str, length: str) -> str:
        consumer = self.consumer(socket)
        if (socket, name) not in self.held:
            self.held[socket, name] = consumer.open_raw(name)
        return result(self.held[socket, name].read_exactly(int(length)))

    def step_drain(self, socket: str, name: str) -> str:
        parts, gaps = [], 0
        with self.consumer(socket).open_raw(name) as file:
            while True:
                try:
                    part = file.read(1 << 16)
                except namely.SegmentLost:
                    gaps += 1
                    continue
                if not part:
                    return f"{result(b''.join(parts))} {gaps}"
                parts.append(part)

    def step_descriptors(self, more: str) -> None:
        # This counts free numbers, because the descriptors in use may leave gaps.
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = (number for number in itertools.count() if not os.path.islink(f"/proc/self/fd/{number}"))
        first = next(itertools.islice(free, int(more), None))
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(first, most), most))

    def step_stat(self, socket: str, name: str) -> str:
        info = self.consumer(socket).stat(name)
        return " ".join("-" if known is None else str(known) for known in (info.size, info.segments))

    def step_newest(self, socket: str, name: str) -> str:
        return self.consumer(socket).stat(name).name.rpartition("/v=")[2]

    def step_publish(self, socket: str, name: str, content: str, *how: str) -> str:
        published = self.producer(socket).publish(name, octets(content), **options(how))
        return f"{published.name} {published.segments}"

    def step_request(self, socket: str, name: str, content: str) -> str:
        return result(self.consumer(socket).request(name, parameters(content)).content)

    def step_send(self, socket: str, name: str, content: str) -> None:
        self.consumer(socket).send(name, parameters(content))

    def step_recv(self, socket: str, waits: bool = True) -> str:
        found = self.bound(socket)
        if isinstance(found, Consumer):
            received = found.recv() if waits else found.try_recv()
            return f"{received.name} {result(received.content)}"
        request = found.recv() if waits else found.try_recv()
        self.requests.setdefault(socket, deque()).append(request)
        return f"{without_digest(request.name)} {result(request.parameters)}"

    def step_try_recv(self, socket: str) -> str:
        return self.step_recv(socket, waits=False)

    def oldest(self, socket: str) -> Request:
        if not self.requests.get(socket):
            raise Unknown("no request waits")
        return self.requests[socket].popleft()

    def step_reply(self, socket: str, content: str, *how: str) -> None:
        self.oldest(socket).reply(octets(content), **options(how))

    def step_deny(self, socket: str) -> None:
        self.oldest(socket).deny()

    def step_refuse(self, socket: str) -> None:
        self.oldest(socket).refuse()

    def step_push(self, socket: str, server: str, name: str, content: str) -> None:
        self.producer(socket).push(server, name, octets(content))

    def step_accept(self, socket: str) -> str:
        offer = self.producer(socket).accept_push()
        self.offers.setdefault(socket, deque()).append(offer)
        return offer.name

    def step_pull(self, socket: str, consumer: str) -> str:
        if not self.offers.get(socket):
            raise Unknown("nothing was offered")
        return result(self.offers[socket].popleft().pull(self.consumer(consumer)))

    def step_ready(self, socket: str, ms: str) -> str:
        return "yes" if select.select([self.bound(socket)], [], [], int(ms) / 1000)[0] else "no"

    def step_close(self, socket: str) -> None:
        found = self.any(socket)
        del self.sockets[socket]
        self.requests.pop(socket, None)
        self.offers.pop(socket, None)
        for key in [key for key in self.begun if key[0] == socket]:
            del self.begun[key]
        if not isinstance(found, Unbound):
            found.close()

    def step_after(self, ms: str, what: str, socket: str) -> None:
        if what != "close":
            raise Unknown("there is no such step here")
        threading.Timer(int(ms) / 1000, self.bound(socket).close).start()

    def step_fork(self, *step: str) -> str | None:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writing, self.answer(" ".join(step)).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            said = pipe.read()
        os.waitpid(child, 0)
        kind, _, words = said.partition(" ")
        if kind == "error":
            raise OSError(getattr(errno, words, 0), "in the child")
        return words if kind == "ok" else said


def main() -> None:
    driver = Driver()
    for line in sys.stdin:
        print(driver.answer(line.rstrip("\n")), flush=True)
    driver.step_reset()


if __name__ == "__main__":
    main()
