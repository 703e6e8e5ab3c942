"""Production on demand, sessions and their certificates, and pushes."""

from __future__ import annotations

import asyncio
import select
import threading
from collections.abc import Callable

import pytest
from conftest import eventually

import namely
from namely import Consumer, Producer
from namely.aio import AsyncConsumer, AsyncProducer

LIFETIME_MS = 20_000
"""Lifetime of requests. A request is sent once, and on a busy machine its answer may take seconds."""


def together(*calls: Callable[[], object]) -> None:
    """Runs the calls each on a thread; fails as they fail."""
    failed: list[BaseException] = []

    def run(call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def test_a_request_is_answered_denied_or_refused() -> None:
    with Producer("/lab/p", timeout_ms=20_000) as producer, Consumer("/lab/p", timeout_ms=20_000, lifetime_ms=LIFETIME_MS) as consumer:

        def serve() -> None:
            request = producer.recv()
            assert request.name.startswith("/lab/p/add/params-sha256=")
            assert request.parameters == b"2 2"
            request.reply(b"4")
            with pytest.raises(namely.InvalidArgument, match="answered before"):
                request.reply(b"5")
            producer.recv().deny()
            producer.recv().deny()
            producer.recv().refuse()

        def ask() -> None:
            answer = consumer.request("/lab/p/add", b"2 2")
            assert (answer.content, answer.content_type) == (b"4", 0)
            with pytest.raises(namely.NameNotFound):
                consumer.request("/lab/p/add", b"2 x")
            with pytest.raises(namely.NameNotFound):
                consumer.fetch("/lab/p/denied")
            with pytest.raises(namely.NoRoute):
                consumer.request("/lab/p/refused")

        together(serve, ask)


def test_an_object_is_made_when_it_is_asked_for() -> None:
    with Producer("/lab/p", timeout_ms=20_000) as producer, Consumer("/lab/p", timeout_ms=20_000) as consumer:

        def serve() -> None:
            request = producer.recv()
            assert request.object == "/lab/p/made"
            request.reply(bytes(50_000))

        together(serve, lambda: consumer.fetch("/lab/p/made"))
        assert consumer.fetch("/lab/p/made") == bytes(50_000)


def test_requests_come_one_after_the_other_until_the_producer_is_closed() -> None:
    with Producer("/lab/p") as producer, Consumer("/lab/p", timeout_ms=20_000, lifetime_ms=LIFETIME_MS) as consumer:
        seen: list[str] = []

        def serve() -> None:
            for request in producer:
                seen.append(request.object)
                request.reply(b"")

        def ask() -> None:
            for i in range(5):
                consumer.request(f"/lab/p/r{i}")
            producer.close()

        together(serve, ask)
        assert seen == [f"/lab/p/r{i}" for i in range(5)]


def test_a_descriptor_says_when_a_request_is_there() -> None:
    with Producer("/lab/p") as producer, Consumer("/lab/p", lifetime_ms=LIFETIME_MS) as consumer:
        with pytest.raises(namely.WouldBlock):
            producer.try_recv()
        with pytest.raises(namely.Timeout):
            producer.recv(timeout=0.05)
        assert select.select([producer], [], [], 0) == ([], [], [])
        consumer.send("/lab/p/ready")
        assert select.select([producer], [], [], 20)[0] == [producer]
        producer.try_recv().reply(b"content")
        assert select.select([consumer], [], [], 20)[0] == [consumer]
        assert consumer.try_recv().content == b"content"


def test_requests_are_awaited() -> None:
    async def main() -> None:
        async with AsyncProducer("/lab/p") as producer, AsyncConsumer("/lab/p", lifetime_ms=LIFETIME_MS) as consumer:

            async def serve() -> None:
                async for request in producer.requests():
                    request.reply(request.parameters or b"")

            serving = asyncio.create_task(serve())
            answers = await asyncio.gather(*(consumer.request(f"/lab/p/a{i}", b"%d" % i) for i in range(20)))
            assert [answer.content for answer in answers] == [b"%d" % i for i in range(20)]
            consumer.socket.send("/lab/p/b", b"sent")
            assert (await consumer.recv()).content == b"sent"
            await producer.close()
            await serving

    asyncio.run(main())


def test_a_session_has_a_certificate_that_its_end_revokes() -> None:
    with Producer("/lab/p") as producer, Consumer("/lab/p", timeout_ms=20_000) as consumer:
        certificate = producer.certificate
        assert certificate is not None and certificate.name.startswith("/lab/p/KEY/")
        published = producer.publish("/lab/p/x", b"content", freshness_ms=60_000)
        assert consumer.fetch(published.name) == b"content"
    with Producer("/lab/p", suite="digest-sha256") as unsigned:
        assert unsigned.certificate is None

    def is_refused() -> bool:
        # Each consumer caches the status of a certificate for a while.
        with Consumer("/lab/p", timeout_ms=20_000) as consumer:
            try:
                consumer.fetch(published.name)
            except namely.KeyRevoked as error:
                assert isinstance(error, namely.VerificationError)
                return True
            return False

    eventually(is_refused, "what a revoked session signed is refused")


def test_content_is_pushed() -> None:
    content = bytes(range(256)) * 100
    with (
        Producer("/lab/server", timeout_ms=20_000) as server,
        Consumer("/lab/client", timeout_ms=20_000) as puller,
        Producer("/lab/client") as client,
    ):
        taken: list[bytes] = []

        def take() -> None:
            offer = server.accept_push()
            assert offer.name.startswith("/lab/client/report/v=") and offer.size == len(content)
            taken.append(offer.pull(puller))
            server.accept_push().refuse()

        def give() -> None:
            receipt = client.push("/lab/server", "/lab/client/report", content, timeout=20)
            assert receipt.size == len(content) and receipt.signer
            with pytest.raises(namely.NoRoute):
                client.push("/lab/server", "/lab/client/other", b"", timeout=20)

        together(take, give)
        assert taken == [content]
        with pytest.raises(namely.OutsidePrefix):
            client.push("/lab/server", "/lab/elsewhere", b"")
        with pytest.raises(namely.InvalidArgument):
            client.push("/lab/server", "/lab/client/x", b"", trust="nobody")


def test_pushes_are_awaited_beside_requests() -> None:
    async def main() -> None:
        async with AsyncProducer("/lab/server") as server, AsyncProducer("/lab/client") as client:
            with pytest.raises(namely.WouldBlock):
                server.socket.try_accept_push()
            with pytest.raises(namely.Timeout):
                await asyncio.to_thread(server.socket.accept_push, timeout=0.05)
            async with AsyncConsumer("/lab/server") as other:
                other.socket.send("/lab/server/ask", lifetime=20)
                push = asyncio.create_task(client.push("/lab/server", "/lab/client/report", b"content"))
                offer = await server.accept_push()
                with Consumer("/lab/client", timeout_ms=20_000) as puller:
                    assert await asyncio.to_thread(offer.pull, puller) == b"content"
                assert (await push).size == 7
                assert (await server.recv()).name == "/lab/server/ask"

    asyncio.run(main())
