"""Changes from Python appear in the output of `namely`, and the other way round."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import threading
import time

import pytest
from conftest import Router as RealRouter
from conftest import namely as run_namely

import namely
from namely import management


def shown(router: RealRouter, *command: str) -> list[dict[str, object]]:
    """The output of a command of `namely` about the router."""
    printed = run_namely(*command, "--json", "--router", router.uri)
    return [json.loads(line) for line in printed.splitlines()]


def test_faces_are_created_changed_and_destroyed(router: RealRouter) -> None:
    with namely.Router(router.uri) as manager:
        assert manager.uri == router.uri
        face = manager.create_face("udp://localhost:16501", persistency="permanent", reliability=True)
        assert (face.persistency, face.reliability, face.scope) == ("permanent", True, "non-local")
        assert manager.create_face(face.remote).face_id == face.face_id
        assert manager.face(face.remote) == manager.face(face.face_id)
        changed = manager.update_face(face.remote, reliability=False, congestion_marking=False)
        assert (changed.reliability, changed.congestion_marking) == (False, False)
        assert changed.face_id in {row["face_id"] for row in shown(router, "face", "list")}
        scheme = face.remote.partition(":")[0]
        assert [found.face_id for found in manager.faces(scheme=scheme, remote=face.remote)] == [face.face_id]
        manager.destroy_face(face.face_id)
        with pytest.raises(namely.NameNotFound):
            manager.face(face.face_id)
        with pytest.raises(namely.NameNotFound, match="no face"):
            manager.destroy_face(face.remote)
        assert router.uri in manager.channels()


def test_routes_go_where_the_router_says(router: RealRouter) -> None:
    with namely.Router(router.uri) as manager:
        face_id = manager.add_route("/far", "udp4://127.0.0.1:16502", cost=7, capture=True, expires=600)
        [route] = [route for route in manager.routes() if route.prefix == "/far"]
        assert route[:6] == ("/far", face_id, "static", 7, True, True)
        assert route.expires_ms is not None and 0 < route.expires_ms <= 600_000
        assert management.NextHop("/far", face_id, 7) in manager.fib()
        assert [row["cost"] for row in shown(router, "route", "list") if row["prefix"] == "/far"] == [7]
        manager.add_route("/far", face_id, cost=3, origin="nlsr")
        assert {route.origin for route in manager.routes() if route.prefix == "/far"} == {"static", "nlsr"}
        manager.remove_route("/far", "udp4://127.0.0.1:16502")
        manager.remove_route("/far", face_id, origin="nlsr")
        assert "/far" not in {route.prefix for route in manager.routes()}


def test_strategies_are_chosen_by_short_and_full_names(router: RealRouter) -> None:
    with namely.Router(router.uri) as manager:
        full = manager.set_strategy("/live", "multicast")
        assert full.startswith("/localhost/nfd/strategy/multicast")
        assert management.StrategyChoice("/live", full) in manager.strategies()
        manager.unset_strategy("/live")
        assert "/live" not in {choice.prefix for choice in manager.strategies()}
        with pytest.raises(namely.NameNotFound):
            manager.set_strategy("/live", "nonesuch")


def test_the_content_store_is_configured_and_erased(router: RealRouter) -> None:
    with namely.Router(router.uri) as manager:
        store = manager.configure_content_store(capacity=123, serve=False, policy="arc")
        assert (store.capacity, store.serve, store.admit, store.policy) == (123, False, True, "arc")
        [row] = shown(router, "cs", "info")
        assert (row["capacity"], row["serve"]) == (123, False)
        assert manager.erase("/") == store.entries
        with pytest.raises(namely.InvalidArgument, match="s3-fifo"):
            manager.configure_content_store(policy="clock")


def test_status_and_counters_count(router: RealRouter) -> None:
    with namely.Router(router.uri) as manager:
        before = manager.status()
        assert "namely" in before.version and before.start_ms <= before.current_ms
        consumer = namely.Consumer("/nowhere", router=router.uri, lifetime_ms=20_000)
        with pytest.raises(namely.NoRoute):
            consumer.request("/nowhere/x")
        consumer.close()
        assert manager.status().received.interests > before.received.interests
        assert sum(count.value for count in manager.counters() if count.label == "forwarder.no_route") >= 1


def test_face_events_come_as_they_happen(router: RealRouter) -> None:
    with namely.Router(router.uri) as manager, namely.Router(router.uri) as other:
        face = other.create_face("udp4://127.0.0.1:16503")
        other.destroy_face(face.face_id)
        for event in manager.face_events(timeout=20):
            if (event.kind, event.face_id) == ("destroyed", face.face_id):
                break
        else:
            pytest.fail("the face's end is an event")
        assert next(manager.face_events(timeout=20)).number == event.number
        start = time.monotonic()
        list(manager.face_events(timeout=0.2))
        assert time.monotonic() - start < 60


def test_wrong_uses_are_exceptions_that_say_so(router: RealRouter, tmp_path: pathlib.Path) -> None:
    with pytest.raises(namely.RouterUnreachable, match="namely up"):
        namely.Router(f"unix://{tmp_path}/none.sock")
    with pytest.raises(namely.InvalidArgument):
        namely.Router("nowhere")
    manager = namely.Router(router.uri)
    for call in (
        lambda: manager.create_face("no uri"),
        lambda: manager.create_face("udp://192.0.2.1", persistency="forever"),  # type: ignore[arg-type]
        lambda: manager.add_route("/far", 1, origin="nobody"),
        lambda: manager.set_strategy("/%", "multicast"),
    ):
        with pytest.raises(namely.InvalidArgument):
            call()
    with pytest.raises(namely.NameNotFound):
        manager.add_route("/far", 1 << 40)
    manager.close()
    with pytest.raises(namely.BadSocket):
        manager.status()


def test_a_router_that_was_started_again_is_reached_again(router: RealRouter) -> None:
    with namely.Router(router.uri) as manager:
        manager.status()
        router.stop()
        with pytest.raises(namely.Error):
            manager.status()
        router.start()
        assert manager.status().start_ms > 0


@pytest.mark.usefixtures("interruptible")
def test_a_signal_ends_a_wait_for_events(router: RealRouter) -> None:
    with namely.Router(router.uri) as manager:
        list(manager.face_events(timeout=0.1))
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            while True:
                list(manager.face_events())
        timer.join()


def test_a_child_process_may_not_use_the_parents_connection(router: RealRouter) -> None:
    with namely.Router(router.uri) as manager:
        child = os.fork()
        if child == 0:
            try:
                manager.status()
            except namely.Forked:
                os._exit(0)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        manager.status()
