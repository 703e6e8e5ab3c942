"""Consumer and producer sockets for asyncio: calls that are awaited.

No thread waits for them: a descriptor tells the event loop when calls are over. A task that is cancelled gives its call up.

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
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Generic, TypeVar

from namely import _native
from namely.errors import Timeout
from namely.sockets import Consumer, Octets, OptionValue, Producer, Published, Socket

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
        """What the call brings."""
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
            # What came at the same moment counts.
            if not pending.arm(self._bell, key):
                raise Timeout.now() from error
        finally:
            del self._waiting[key]
            if not self._waiting:
                self._loop.remove_reader(self._bell.fileno())
        return pending.try_take()

    def _rung(self) -> None:
        for key in self._bell.take():
            over = self._waiting.get(key)
            if over is not None and not over.done():
                over.set_result(None)


_reactors: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Reactor] = weakref.WeakKeyDictionary()


async def _result(pending: _native.Pending[T]) -> T:
    loop = asyncio.get_running_loop()
    reactor = _reactors.get(loop)
    if reactor is None:
        reactor = _reactors[loop] = _Reactor(loop)
    return await reactor.result(pending)


class AsyncSocket(Generic[S]):
    """What both kinds of sockets have. `async with` binds it; `socket` is the socket with calls that wait."""

    def __init__(self, make: Callable[[], S]) -> None:
        self._make = make
        self._bound: S | None = None

    @property
    def socket(self) -> S:
        """The socket that this one is, with calls that wait: options, descriptor, counters."""
        if self._bound is None:
            raise RuntimeError("the socket is not bound yet: use `async with`, or await bind()")
        return self._bound

    async def bind(self) -> None:
        """Binds it, on a thread: the router must be reached. What can go wrong is as for the socket with calls that wait."""
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

    async def __aenter__(self) -> AsyncConsumer:
        await self.bind()
        return self

    async def fetch(self, name: str) -> bytes:
        """As `namely.Consumer.fetch`."""
        return await _result(self.socket._socket.fetch(name))


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
