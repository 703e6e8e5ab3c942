"""Consumer and producer sockets for asyncio: calls that are awaited.

No thread waits for them: a descriptor reports ended calls to the event loop. Cancelling a task abandons its call.

>>> import asyncio
>>> async def main() -> list[bytes]:
...     async with AsyncProducer("/lab/doc") as producer, AsyncConsumer("/lab/doc") as consumer:
...         for i in range(3):
...             await producer.publish(f"/lab/doc/{i}", b"content %d" % i)
...         return await asyncio.gather(*(consumer.fetch(f"/lab/doc/{i}") for i in range(3)))
>>> asyncio.run(main())
[b'content 0', b'content 1', b'content 2']
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Generic, TypeVar

from namely import _native
from namely.errors import BadSocket, Closed, Timeout, WouldBlock
from namely.sockets import (
    Consumer,
    ObjectFile,
    ObjectInfo,
    Octets,
    Offer,
    OptionValue,
    Producer,
    Published,
    Receipt,
    Received,
    Request,
    Socket,
    octets,
)

CALLS_AT_ONCE = 32
"""Fetches of one consumer under way; further ones wait."""

ELSEWHERE_S = 0.02
"""Seconds between attempts while a socket is ready only for another kind of call: a push, not a request."""

T = TypeVar("T")
S = TypeVar("S", bound=Socket)


class _Reactor:
    """The calls that one event loop waits for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._bell = _native.Bell()
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._next = 0

    async def result(self, pending: _native.Pending[T]) -> T:
        """The result of the call."""
        key = self._next
        self._next += 1
        if pending.arm(self._bell, key):
            return pending.try_take()
        over: asyncio.Future[None] = self._loop.create_future()
        if not self._waiting:
            self._loop.add_reader(self._bell.fileno(), self._rung)
        self._waiting[key] = over
        try:
            await asyncio.wait_for(over, pending.timeout)
        except asyncio.TimeoutError as error:
            # A result that arrived at the same moment counts.
            if not pending.arm(self._bell, key):
                raise Timeout.because("not in time") from error
        finally:
            del self._waiting[key]
            if not self._waiting:
                self._loop.remove_reader(self._bell.fileno())
        return pending.try_take()

    def _rung(self) -> None:
        for key in self._bell.take():
            if (over := self._waiting.get(key)) is not None:
                _set(over)


_reactors: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Reactor] = weakref.WeakKeyDictionary()


async def _result(pending: _native.Pending[T]) -> T:
    loop = asyncio.get_running_loop()
    reactor = _reactors.get(loop)
    if reactor is None:
        reactor = _reactors[loop] = _Reactor(loop)
    return await reactor.result(pending)


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


async def _ready(socket: Socket, call: Callable[[], T]) -> T:
    """Returns the result of `call` once the socket's descriptor reports that the call does not wait."""
    loop = asyncio.get_running_loop()
    woken = False
    while True:
        try:
            return call()
        except WouldBlock:
            pass
        if woken:
            # The socket is ready for another kind of call.
            await asyncio.sleep(ELSEWHERE_S)
        ready = loop.create_future()
        # Each waiting task has a descriptor of its own, because an event loop has only one reader
        # for each descriptor.
        descriptor = os.dup(socket.fileno())
        loop.add_reader(descriptor, _set, ready)
        try:
            await ready
            woken = True
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)


class AsyncObjectFile:
    """An object that is being read; each call waits on a thread. `async with` closes it."""

    def __init__(self, file: ObjectFile) -> None:
        self.file = file
        """The file, with calls that wait."""

    async def read(self, size: int = -1) -> bytes:
        """Reads at most `size` octets, or all the rest without it. Returns none at the end."""
        return await asyncio.to_thread(self.file.readall if size < 0 else lambda: self.file.read_exactly(size))

    async def seek(self, offset: int, whence: int = 0) -> int:
        """As `namely.ObjectFile.seek`."""
        return await asyncio.to_thread(self.file.seek, offset, whence)

    async def close(self) -> None:
        """Closes it."""
        await asyncio.to_thread(self.file.close)

    async def __aenter__(self) -> AsyncObjectFile:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncSocket(Generic[S]):
    """The common part of both sockets. `async with` binds it; `socket` is the socket with calls that wait."""

    def __init__(self, make: Callable[[], S]) -> None:
        self._make = make
        self._bound: S | None = None

    @property
    def socket(self) -> S:
        """The socket with calls that wait: options, descriptor, counters."""
        if self._bound is None:
            raise RuntimeError("the socket is not bound yet: use `async with`, or await bind()")
        return self._bound

    async def bind(self) -> None:
        """Binds it, on a thread because this connects to the router. Raises as `namely.Consumer` and `namely.Producer`."""
        if self._bound is None:
            self._bound = await asyncio.to_thread(self._make)

    async def close(self) -> None:
        """Closes it. Calls under way end with `namely.Closed`."""
        if self._bound is not None:
            await asyncio.to_thread(self._bound.close)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncConsumer(AsyncSocket[Consumer]):
    """`namely.Consumer` for asyncio."""

    def __init__(self, prefix: str, **options: OptionValue) -> None:
        super().__init__(lambda: Consumer(prefix, **options))
        self._turns = asyncio.Semaphore(CALLS_AT_ONCE)

    async def __aenter__(self) -> AsyncConsumer:
        await self.bind()
        return self

    async def fetch(self, name: str) -> bytes:
        """As `namely.Consumer.fetch`. Beyond `CALLS_AT_ONCE` calls wait."""
        async with self._turns:
            return await _result(self.socket._socket.fetch(name))

    async def stat(self, name: str) -> ObjectInfo:
        """As `namely.Consumer.stat`."""
        async with self._turns:
            return ObjectInfo(*await _result(self.socket._socket.stat(name)))

    async def open(self, name: str) -> AsyncObjectFile:
        """The object `name` as a file with calls that are awaited."""
        return AsyncObjectFile(ObjectFile(await _result(self.socket._socket.stream(name))))

    async def request(
        self, name: str, parameters: Octets | None = None, *, lifetime: float | None = None
    ) -> Received:
        """As `namely.Consumer.request`."""
        sent = None if parameters is None else octets(parameters)
        return Received(*await _result(self.socket._socket.request(name, sent, lifetime)))

    async def recv(self) -> Received:
        """As `namely.Consumer.recv`, for Interests of `socket.send`."""
        return await _ready(self.socket, self.socket.try_recv)


class AsyncProducer(AsyncSocket[Producer]):
    """`namely.Producer` for asyncio."""

    def __init__(self, prefix: str, **options: OptionValue) -> None:
        super().__init__(lambda: Producer(prefix, **options))

    async def __aenter__(self) -> AsyncProducer:
        await self.bind()
        return self

    async def publish(self, name: str, content: Octets, **options: OptionValue) -> Published:
        """As `namely.Producer.publish`, on a thread: hashing, signing and writing take their time."""
        return await asyncio.to_thread(self.socket.publish, name, content, **options)

    async def recv(self) -> Request:
        """As `namely.Producer.recv`. `reply`, `deny` and `refuse` do not wait."""
        return await _ready(self.socket, self.socket.try_recv)

    async def requests(self) -> AsyncIterator[Request]:
        """The requests as they come, until the producer is closed."""
        while True:
            try:
                yield await self.recv()
            except (Closed, BadSocket):
                return

    async def push(self, server: str, name: str, content: Octets, **options: OptionValue) -> Receipt:
        """As `namely.Producer.push`, on a thread."""
        return await asyncio.to_thread(lambda: self.socket.push(server, name, content, **options))  # type: ignore[arg-type]

    async def accept_push(self) -> Offer:
        """As `namely.Producer.accept_push`."""
        return await _ready(self.socket, self.socket.try_accept_push)
