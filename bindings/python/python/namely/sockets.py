"""Consumer and producer sockets: calls that wait.

Several threads may use one socket; while one waits, the others run. A call that waits ends early with the exception of a
signal's handler (`KeyboardInterrupt`), and with `namely.Closed` when another thread closes the socket.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import NamedTuple, TypeAlias, TypeVar

from namely import _native

Octets: TypeAlias = bytes | bytearray | memoryview
"""What can be published: octets, or any object that has a buffer of them (an array's, say)."""

OptionValue: TypeAlias = str | int | bool | os.PathLike[str]
"""What an option takes: what the table of docs/sockets.md says, as text or as Python's own type."""

Self = TypeVar("Self", bound="Socket")


class Published(NamedTuple):
    """What was published."""

    name: str
    """Its name, with the version."""

    segments: int
    """How many segments it has."""


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


def octets(content: Octets) -> bytes:
    """The content as `bytes`, without a copy if it is."""
    return content if isinstance(content, bytes) else bytes(memoryview(content))


class Socket:
    """What both kinds of sockets have. A context manager; closed when it is left, or when nobody has it any more."""

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

    def close(self) -> None:
        """Closes it. Whoever waits on it gets `namely.Closed`. To close it again does nothing."""
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
    """A socket that fetches what is named below its prefix: verified, or not at all.

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

        Waits for at most `timeout` seconds; without it, as option `timeout_ms` says.

        Raises `namely.NameNotFound`, `namely.NoRoute`, `namely.Timeout`, `namely.VerificationError` (nothing that was not
        verified is handed out), `namely.ObjectTooLarge` (option `object_octets_max`), `namely.OutsidePrefix`.
        """
        return self._socket.fetch(name).wait(timeout)


class Producer(Socket):
    """A socket that publishes below its prefix, and serves what was published without the application.

    The key of the longest identity above the prefix signs (`namely key new /lab/doc` makes one); `namely.CertificateMissing`
    is raised if there is none, `namely.PrefixInUse` if another producer of this process has the prefix, one above it or one
    below, and `namely.RouterRefused` if the router does not let this user have it.

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

        `options` are those of the socket that one publication may differ in (`manifest`, `freshness_ms`, …), and `version`.

        Raises `namely.OutsidePrefix` for a name that is not below the prefix, `namely.DiskFull`.
        """
        return Published(*self._socket.publish(name, octets(content), options_text(options)))
