"""Consumer and producer sockets: calls that wait.

Several threads may use one socket; while one waits, the others run. A call that waits ends early with the exception of a
signal's handler (`KeyboardInterrupt`), and with `namely.Closed` when another thread closes the socket.
"""

from __future__ import annotations

import collections
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from namely import _native
from namely.errors import BadSocket, Closed, InvalidArgument, NameNotFound

Octets: TypeAlias = bytes | bytearray | memoryview
"""Content to publish: octets, or any object with a buffer of them, such as an array."""

OptionValue: TypeAlias = str | int | bool | os.PathLike[str]
"""The value of an option (docs/sockets.md), as text or as Python's own type."""

Self = TypeVar("Self", bound="Socket")


BUFFER_OCTETS = 256 * 1024
"""Octets that a file of `Consumer.open` reads at once."""

STATS_AT_ONCE = 32
"""Objects that `Consumer.stat_many` requests at once."""


class ObjectInfo(NamedTuple):
    """The properties of an object, without its content."""

    name: str
    """The name under which its segments are; versioned, as a rule."""

    size: int | None
    """Octets of its content; `None` if its producer did not announce them."""

    segments: int | None
    """Number of its segments; `None` if its producer did not announce it."""

    vouching: str
    """The authentication of its segments: `manifests`, or the `segments` themselves."""

    signer: str | None
    """The key that signed its description."""

    is_directory: bool
    """Whether it is a directory."""

    mtime_ns: int | None
    """Time of the last change, nanoseconds since the Unix epoch; `None` if it is unknown."""


class Received(NamedTuple):
    """A verified answer to one Interest."""

    name: str
    """The name of the Data."""

    content: bytes
    """Its content."""

    signer: str | None
    """The key that signed it; `None` without a signature by a key."""

    rtt: float
    """Seconds from the Interest to the Data."""

    content_type: int
    """The ContentType of the Data; 0: octets. A denial is an error instead: `namely.NameNotFound`."""


class Published(NamedTuple):
    """A publication."""

    name: str
    """Its name, with the version."""

    segments: int
    """Number of its segments."""


class Receipt(NamedTuple):
    """A server's signed confirmation that it has the pushed object."""

    name: str
    """The object, with its version."""

    size: int
    """Its octets."""

    signer: str | None
    """The key that signed the receipt."""


class Certificate(NamedTuple):
    """The certificate of a producer's session."""

    name: str
    """Its name, under which it can be fetched while the producer is there."""

    octets: bytes
    """Its Data packet."""


def options_text(options: dict[str, OptionValue]) -> list[tuple[str, str]]:
    """Options as the sockets take them: by name and text.

    >>> options_text({"window_max": 64, "must_be_fresh": True, "trust": "digest"})
    [('window_max', '64'), ('must_be_fresh', 'true'), ('trust', 'digest')]
    """
    return [(name, option_text(value)) for name, value in options.items()]


def option_text(value: OptionValue) -> str:
    """One option's value as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else os.fspath(value)


def options(role: Literal["consumer", "producer"], **options: OptionValue) -> dict[str, str]:
    """Every option of a consumer or a producer and its value: those given, and the others by default.

    >>> options("consumer", congestion="bbr")["congestion"], options("consumer")["lifetime_ms"]
    ('bbr', '2000')

    Raises `namely.UnknownOption` and `namely.InvalidArgument`, with the values that the option takes.
    """
    return dict(_native.options(role, options_text(options)))


def octets(content: Octets) -> bytes:
    """The content as `bytes`, without a copy if it is."""
    return content if isinstance(content, bytes) else bytes(memoryview(content))


def _optional(content: Octets | None) -> bytes | None:
    return None if content is None else octets(content)


class ObjectFile(io.RawIOBase):
    """An object that is being read. `Consumer.open` returns it with a buffer."""

    def __init__(self, stream: _native.Stream) -> None:
        self._stream = stream
        self._position = 0

    @property
    def name(self) -> str:
        """The versioned name: the file stays this version when others are published."""
        return self._stream.name

    @property
    def size(self) -> int | None:
        """Octets of the whole object; `None` if its producer did not announce them."""
        return self._stream.octets

    def readable(self) -> bool:
        """Always true."""
        return True

    def seekable(self) -> bool:
        """Always true. Seeking far costs a round trip, seeking to the end nothing."""
        return True

    def readinto(self, buffer: memoryview | bytearray) -> int:  # type: ignore[override]
        """Reads the octets that have arrived, at least one; returns 0 at the end."""
        view = memoryview(buffer).cast("B")
        read = self._stream.read(len(view))
        view[: len(read)] = read
        self._position += len(read)
        return len(read)

    def read_exactly(self, size: int) -> bytes:
        """`size` octets; fewer if the object ends before."""
        parts = []
        while size > 0 and (part := self.read(size)):
            parts.append(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_at(self, start: int, size: int, *, timeout: float | None = None) -> bytes:
        """`size` octets from `start` on, independent of the position; fewer if the object ends before.

        Only the segments that hold them are fetched, so few octets of a large object cost little. Threads may call it in
        parallel. The position does not change.
        """
        return self.read_at_later(start, size).wait(timeout)

    def read_at_later(self, start: int, size: int) -> Fetch:
        """Starts to read without waiting. Raises `namely.QueueFull` if too many reads are under way."""
        if start < 0 or size < 0:
            raise InvalidArgument.because("the start and the size of a range cannot be negative")
        return Fetch(self._stream.read_range(start, size))

    def read_ranges(self, ranges: Sequence[tuple[int, int]], *, timeout: float | None = None) -> list[bytes]:
        """The octets of each range (its start and size), requested in parallel.

        Each is shorter only where the object ends before. If one range fails, the call fails.
        """
        if any(start < 0 or size < 0 for start, size in ranges):
            raise InvalidArgument.because("the start and the size of a range cannot be negative")
        return self._stream.read_ranges(list(ranges)).wait(timeout)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Sets the position, and returns it."""
        self._position = self._stream.seek(offset, whence)
        return self._position

    def tell(self) -> int:
        """The position."""
        return self._position

    def close(self) -> None:
        """Closes it, and abandons reads under way."""
        if not self.closed:
            self._stream.close()
        super().close()


class Fetch:
    """A fetch under way. Dropping the last reference abandons it."""

    def __init__(self, pending: _native.Pending[bytes]) -> None:
        self._pending = pending

    def wait(self, timeout: float | None = None) -> bytes:
        """Waits for the object; returns it once. Raises as `Consumer.fetch`; the fetch goes on after `namely.Timeout`."""
        return self._pending.wait(timeout)

    def try_take(self) -> bytes:
        """Returns the object if it has arrived; else raises `namely.WouldBlock`."""
        return self._pending.try_take()


class Socket:
    """The common part of both sockets. A context manager; closed at its end, or with the last reference."""

    _socket: _native.Consumer | _native.Producer

    @property
    def prefix(self) -> str:
        """The prefix that it is bound to."""
        return self._socket.prefix

    @property
    def router(self) -> str:
        """The router's address."""
        return self._socket.router

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._socket.closed

    def option(self, name: str) -> str:
        """The value of an option, as text."""
        return self._socket.option(name)

    def set_option(self, name: str, value: OptionValue) -> None:
        """Sets an option that may be set after the socket is bound; calls under way keep the value that they had."""
        self._socket.set_option(name, option_text(value))

    def stats(self) -> dict[str, int]:
        """Counters by name."""
        return dict(self._socket.stats())

    def fileno(self) -> int:
        """A descriptor that is readable when `recv` would not wait, for `select` and event loops."""
        return self._socket.fileno()

    def close(self) -> None:
        """Closes it. Calls that wait on it raise `namely.Closed`. Closing it again does nothing."""
        self._socket.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = " closed" if self.closed else ""
        return f"<namely.{type(self).__name__} {self.prefix} at {self.router}{state}>"


class Consumer(Socket):
    """A socket that fetches objects below its prefix and verifies all of them.

    `options` are those of docs/sockets.md: `router`, `trust`, `congestion`, `timeout_ms`, …

    >>> with Producer("/lab/doc") as producer, Consumer("/lab/doc", timeout_ms=10_000) as consumer:
    ...     published = producer.publish("/lab/doc/greeting", b"hello")
    ...     consumer.fetch("/lab/doc/greeting")
    b'hello'

    Raises `namely.RouterUnreachable` if there is no router, `namely.NameTooLong` for a prefix of more than 32 components or
    255 octets, `namely.UnknownOption` and `namely.InvalidArgument` for options.
    """

    _socket: _native.Consumer

    def __init__(self, prefix: str, **options: OptionValue) -> None:
        self._socket = _native.Consumer(prefix, options_text(options))

    def fetch(self, name: str, *, timeout: float | None = None) -> bytes:
        """The object `name`: its newest version, unless the name has one.

        Waits for at most `timeout` seconds; without it, as long as option `timeout_ms` allows.

        Raises `namely.NameNotFound`, `namely.IsDirectory`, `namely.NoRoute`, `namely.Timeout`, `namely.VerificationError`
        (no unverified content is returned), `namely.ObjectTooLarge` (option `object_octets_max`), `namely.OutsidePrefix`.
        """
        return self._socket.fetch(name).wait(timeout)

    def fetch_later(self, name: str) -> Fetch:
        """Starts to fetch the object `name` without waiting.

        >>> with Producer("/lab/doc") as producer, Consumer("/lab/doc", timeout_ms=10_000) as consumer:
        ...     under_way = [consumer.fetch_later(producer.publish(f"/lab/doc/{i}", b"%d" % i).name) for i in range(3)]
        ...     [fetch.wait() for fetch in under_way]
        [b'0', b'1', b'2']

        Raises `namely.QueueFull` if too many are under way already.
        """
        return Fetch(self._socket.fetch(name))

    def stat(self, name: str, *, timeout: float | None = None) -> ObjectInfo:
        """The properties of the object `name`, such as its newest version and size. No content is fetched.

        Raises as `fetch`.
        """
        return ObjectInfo(*self._socket.stat(name).wait(timeout))

    def stat_many(self, names: Iterable[str]) -> list[ObjectInfo | None]:
        """`stat` of many objects in parallel; `None` for those that do not exist."""
        found: list[ObjectInfo | None] = []
        under_way: collections.deque[_native.Pending[tuple[str, int | None, int | None, str, str | None, bool, int | None]]] = collections.deque()

        def finish_one() -> None:
            try:
                found.append(ObjectInfo(*under_way.popleft().wait(None)))
            except NameNotFound:
                found.append(None)

        for name in names:
            if len(under_way) == STATS_AT_ONCE:
                finish_one()
            under_way.append(self._socket.stat(name))
        while under_way:
            finish_one()
        return found

    def open(self, name: str, *, buffering: int = BUFFER_OCTETS) -> io.BufferedReader:
        r"""The object `name` as a binary file: read while it comes, with `seek` and `tell`.

        >>> with Producer("/lab/doc") as producer, Consumer("/lab/doc", timeout_ms=10_000) as consumer:
        ...     published = producer.publish("/lab/doc/lines", b"".join(b"line %d\n" % i for i in range(10_000)))
        ...     with consumer.open("/lab/doc/lines") as file:
        ...         first = file.readline()
        ...         position = file.seek(-10, 2)
        ...         first, file.read()
        (b'line 0\n', b'line 9999\n')

        Raises as `fetch`, here and when it is read, except `namely.ObjectTooLarge`.
        """
        return io.BufferedReader(self.open_raw(name), buffering)

    def open_raw(self, name: str, *, timeout: float | None = None) -> ObjectFile:
        """The same without a buffer."""
        return ObjectFile(self._socket.stream(name).wait(timeout))

    def request(
        self, name: str, parameters: Octets | None = None, *, lifetime: float | None = None, timeout: float | None = None
    ) -> Received:
        """Sends one Interest, with `parameters` for the producer, and returns its answer. Nothing is retransmitted.

        A reply in a cache answers only while it is fresh, unless option `must_be_fresh` is false.

        `lifetime` is the InterestLifetime in seconds, by default that of option `lifetime_ms`.

        Raises `namely.MessageTooLarge` if it does not fit a packet, and otherwise as `fetch`.
        """
        return Received(*self._socket.request(name, _optional(parameters), lifetime).wait(timeout))

    def send(self, name: str, parameters: Octets | None = None, *, lifetime: float | None = None) -> None:
        """Sends only the Interest. `recv` returns its answer.

        Raises `namely.QueueFull` if too many answers wait to be received.
        """
        self._socket.send(name, _optional(parameters), lifetime)

    def recv(self, *, timeout: float | None = None) -> Received:
        """The next answer to a sent Interest. Raises the reason for an Interest without an answer (`filename` is its name)."""
        return Received(*self._socket.recv(timeout))

    def try_recv(self) -> Received:
        """The same without waiting: `namely.WouldBlock` if there is nothing yet."""
        return Received(*self._socket.try_recv())


class Producer(Socket):
    """A socket that publishes below its prefix, and serves the publications without the application.

    The key of the longest identity above the prefix signs (`namely key new /lab/doc` makes one); `namely.CertificateMissing`
    is raised if there is none, `namely.PrefixInUse` if another producer of this process has the prefix, one above it or one
    below, and `namely.RouterRefused` if the router does not permit this user to register it.

    >>> with Producer("/lab/doc", manifest="blake3") as producer:
    ...     published = producer.publish("/lab/doc/numbers", bytes(20_000), version=7)
    >>> published.name
    '/lab/doc/numbers/v=7'
    >>> published.segments
    3
    """

    _socket: _native.Producer

    def __init__(self, prefix: str, **options: OptionValue) -> None:
        self._socket = _native.Producer(prefix, options_text(options))

    def publish(self, name: str, content: Octets, **options: OptionValue) -> Published:
        """Publishes `content` as a new version of `name`: cut, hashed and signed on the calling thread, served from then on.

        `options` are `version`, and options of the socket that may differ for one publication (`manifest`, `freshness_ms`, …).

        Raises `namely.OutsidePrefix` for a name that is not below the prefix, `namely.DiskFull`.
        """
        return Published(*self._socket.publish(name, octets(content), options_text(options)))

    @property
    def certificate(self) -> Certificate | None:
        """The certificate of this session's key, issued by the identity; none where no key signs (`suite="digest-sha256"`).

        Closing the producer revokes it, unless the producer is reliable.
        """
        certificate = self._socket.certificate
        return None if certificate is None else Certificate(*certificate)

    def revoke(self) -> None:
        """Closes it and revokes its certificate: consumers no longer accept its signatures."""
        self._socket.revoke()

    def recv(self, *, timeout: float | None = None) -> Request:
        """The next request that no publication answers.

        >>> import threading
        >>> with Producer("/lab/doc") as producer, Consumer("/lab/doc", timeout_ms=10_000) as consumer:
        ...     thread = threading.Thread(target=lambda: producer.recv().reply(b"four"))
        ...     thread.start()
        ...     consumer.request("/lab/doc/sum", b"2 + 2").content
        b'four'

        Raises `namely.Timeout`.
        """
        return Request(self._socket.recv(timeout))

    def try_recv(self) -> Request:
        """The same without waiting: `namely.WouldBlock` if there is none."""
        return Request(self._socket.try_recv())

    def __iter__(self) -> Iterator[Request]:
        """The requests as they come, until the producer is closed."""
        while not self.closed:
            try:
                yield self.recv()
            except (Closed, BadSocket):
                return

    def push(
        self,
        server: str,
        name: str,
        content: Octets,
        *,
        trust: str | None = None,
        timeout: float = 600.0,
        **options: OptionValue,
    ) -> Receipt:
        """Publishes `content` as `name`, lets the producer bound to `server` pull it, and returns its verified receipt.

        `trust` has the rules by which the receipt is verified, as the option of consumers.

        Raises `namely.NoRoute` if the server refuses or there is none, `namely.Timeout`, `namely.VerificationError`.
        """
        return Receipt(*self._socket.push(server, trust, name, octets(content), timeout, options_text(options)))

    def accept_push(self, *, timeout: float | None = None) -> Offer:
        """The next offer of a client to this producer's prefix. Raises `namely.Timeout`."""
        return Offer(self._socket.accept_push(timeout))

    def try_accept_push(self) -> Offer:
        """The same without waiting: `namely.WouldBlock` if there is none."""
        return Offer(self._socket.try_accept_push())


class Request:
    """A request that no publication answers. The consumer waits for the reply until its Interest expires."""

    def __init__(self, request: _native.Request) -> None:
        self._request = request

    @property
    def name(self) -> str:
        """The Interest's name, with the digest of its parameters, and the component that requests the newest version."""
        return self._request.name

    @property
    def object(self) -> str:
        """The name to publish under: that of the object if its newest version is requested, else the requested name."""
        return self._request.object

    @property
    def parameters(self) -> bytes | None:
        """The parameters of the request."""
        return self._request.parameters

    def reply(self, content: Octets, **options: OptionValue) -> None:
        """Answers it. If the newest version of an object is requested, publishes a new version; otherwise sends one packet.

        Raises `namely.MessageTooLarge` if the content does not fit one packet.
        """
        self._request.reply(octets(content), options_text(options))

    def deny(self) -> None:
        """Denies, signed, that the object exists: the consumer's call raises `namely.NameNotFound`."""
        self._request.deny()

    def refuse(self, *, congestion: bool = False) -> None:
        """Refuses it: the consumer's call raises `namely.NoRoute`; with `congestion` the consumer repeats it later."""
        self._request.refuse(congestion)

    def __repr__(self) -> str:
        return f"<namely.Request {self.name}>"


class Offer:
    """A client's offer to push an object. It is not verified yet: `pull` verifies it."""

    def __init__(self, offer: _native.Offer) -> None:
        self._offer = offer

    @property
    def name(self) -> str:
        """The object, with its version."""
        return self._offer.name

    @property
    def size(self) -> int | None:
        """Its size as the client announced it, octets."""
        return self._offer.octets

    def pull(self, consumer: Consumer) -> bytes:
        """Fetches it through `consumer`, whose prefix and trust limit what is pulled, and sends the client a receipt.

        Raises as `Consumer.fetch`; then the client gets no receipt.
        """
        return self._offer.pull(consumer._socket)

    def refuse(self) -> None:
        """Refuses it: the client's call fails."""
        self._offer.refuse()

    def __repr__(self) -> str:
        return f"<namely.Offer {self.name}>"
