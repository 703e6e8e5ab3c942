"""The sockets for asyncio: many calls at once, cancelled calls, and time limits."""

from __future__ import annotations

import asyncio
import time

import pytest

import namely
from namely.aio import AsyncConsumer, AsyncProducer


def test_a_thousand_calls_share_one_loop() -> None:
    async def main() -> None:
        async with AsyncProducer("/lab/a") as producer, AsyncConsumer("/lab/a") as consumer:
            names = [(await producer.publish(f"/lab/a/{i}", b"%d" % i)).name for i in range(100)]
            for _ in range(2):
                fetched = await asyncio.gather(*(consumer.fetch(name) for name in names))
                assert fetched == [b"%d" % i for i in range(100)]

    asyncio.run(main())


def test_a_cancelled_call_is_given_up() -> None:
    async def main() -> None:
        async with AsyncProducer("/lab/a") as producer, AsyncConsumer("/lab/a", lifetime_ms=20_000) as consumer:
            published = await producer.publish("/lab/a/x", b"content")
            task = asyncio.create_task(consumer.fetch("/lab/a/never"))
            # The call waits: the producer has its Interest.
            await producer.recv()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await consumer.fetch(published.name) == b"content"

    asyncio.run(main())


def test_time_limits_are_kept() -> None:
    async def main() -> None:
        # Without the limits, a call would wait for a lifetime at least.
        async with AsyncProducer("/lab/a"), AsyncConsumer("/lab/a", timeout_ms=200, lifetime_ms=60_000) as consumer:
            began = time.monotonic()
            with pytest.raises(namely.Timeout):
                await consumer.fetch("/lab/a/never")
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(consumer.fetch("/lab/a/never"), 0.1)
            assert time.monotonic() - began < 60

    asyncio.run(main())


def test_closing_wakes_who_awaits() -> None:
    async def main() -> None:
        async with AsyncProducer("/lab/a") as producer, AsyncConsumer("/lab/a", lifetime_ms=20_000) as consumer:
            task = asyncio.create_task(consumer.fetch("/lab/a/never"))
            await producer.recv()
            await consumer.close()
            with pytest.raises(namely.Closed):
                await task

    asyncio.run(main())


def test_errors_are_the_same() -> None:
    async def main() -> None:
        consumer = AsyncConsumer("/nowhere")
        with pytest.raises(RuntimeError, match="not bound"):
            await consumer.fetch("/nowhere/x")
        async with consumer:
            with pytest.raises(namely.NoRoute):
                await consumer.fetch("/nowhere/x")
            with pytest.raises(namely.OutsidePrefix):
                await consumer.fetch("/lab/x")
        with pytest.raises(namely.BadSocket):
            await consumer.fetch("/nowhere/x")

    asyncio.run(main())
