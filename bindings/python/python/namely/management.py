"""Management of a router: its faces, routes, strategies, content store and counters.

A `Router` is a connection to any router that speaks the NFD management protocol. A router on the same host identifies its
users by their socket. A router in the network accepts commands that a key signed that it trusts: the default key of the
key chain signs them, if it has no passphrase.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Literal, NamedTuple, TypeAlias

from namely import _native
from namely.errors import NameNotFound, Timeout

Persistency: TypeAlias = Literal["persistent", "on-demand", "permanent"]
"""When a face closes: when it fails, also when it is idle, or never by itself."""


class Traffic(NamedTuple):
    """Traffic of a face, or of all of them, in one direction."""

    interests: int
    """Interests."""

    data: int
    """Data."""

    nacks: int
    """Nacks."""

    octets: int
    """Octets of link packets; 0 where the router does not count them."""


class Face(NamedTuple):
    """A face of a router."""

    face_id: int
    """Its number."""

    remote: str
    """The URI of its remote end."""

    local: str
    """The URI of its local end."""

    scope: str
    """`local` or `non-local`."""

    persistency: str
    """When it closes, see `Persistency`."""

    link_type: str
    """`point-to-point`, `multi-access` or `ad-hoc`."""

    mtu: int | None
    """The largest link packet, octets; none where there is no limit."""

    expires_ms: int | None
    """Milliseconds until it closes if it stays idle."""

    reliability: bool
    """Whether lost link packets are sent again."""

    congestion_marking: bool
    """Whether a long send queue marks packets."""

    local_fields: bool
    """Whether NextHopFaceId, IncomingFaceId and CachePolicy are understood."""

    received: Traffic
    """Received traffic."""

    sent: Traffic
    """Sent traffic."""


class FaceEvent(NamedTuple):
    """A change of a face."""

    number: int
    """Its number: the router counts its face events."""

    kind: str
    """`created`, `destroyed`, `up` or `down`."""

    face_id: int
    """The face's number."""

    remote: str
    """The URI of the face's remote end."""

    local: str
    """The URI of its local end."""

    scope: str
    """`local` or `non-local`."""

    persistency: str
    """When it closes, see `Persistency`."""


class Route(NamedTuple):
    """A route: a possible next hop of Interests below a prefix."""

    prefix: str
    """The name prefix."""

    face_id: int
    """The next hop's face."""

    origin: str
    """The origin of the route: `static`, `app`, `client`, `autoreg`, `nlsr`, or a number."""

    cost: int
    """Lower is better."""

    child_inherit: bool
    """Whether it serves longer prefixes that have routes of their own, too."""

    capture: bool
    """Whether routes of shorter prefixes do not serve this one."""

    expires_ms: int | None
    """Milliseconds until the router removes it; none for one that stays."""


class NextHop(NamedTuple):
    """An entry of the FIB: the next hops of Interests below a prefix."""

    prefix: str
    """The name prefix."""

    face_id: int
    """The face."""

    cost: int
    """Lower is better."""


class StrategyChoice(NamedTuple):
    """The strategy that forwards below a prefix."""

    prefix: str
    """The name prefix."""

    strategy: str
    """The strategy's full name."""


class ContentStore(NamedTuple):
    """The content store."""

    entries: int
    """Packets in it."""

    capacity: int
    """Maximum number of packets."""

    hits: int
    """Interests that it answered."""

    misses: int
    """Interests that it did not answer."""

    admit: bool
    """Whether new Data may enter."""

    serve: bool
    """Whether stored Data may answer."""

    policy: str | None
    """The eviction policy; `None` if the router does not report it."""


class Status(NamedTuple):
    """The general status of a router."""

    version: str
    """The router's name and version."""

    start_ms: int
    """When it started, milliseconds since the Unix epoch."""

    current_ms: int
    """Its present time, milliseconds since the Unix epoch."""

    name_tree_entries: int
    """Entries of the name tree."""

    fib_entries: int
    """Prefixes in the FIB."""

    pit_entries: int
    """Pending Interests."""

    measurements_entries: int
    """Prefixes that strategies measure."""

    cs_entries: int
    """Packets in the content store."""

    received: Traffic
    """Received traffic."""

    sent: Traffic
    """Sent traffic."""

    satisfied_interests: int
    """Pending Interests that got Data."""

    unsatisfied_interests: int
    """Pending Interests that expired."""


class Counter(NamedTuple):
    """A counter of a router, mostly of packets dropped for one reason."""

    label: str
    """The counter's name, such as `forwarder.no_route`; docs/counters.md lists them."""

    face_id: int | None
    """The face; `None` for the whole router."""

    value: int
    """The count."""


class Router:
    """A router's management, over one connection. Threads may share it; their calls run one after the other.

    Every call waits for the router's answer, for a few seconds at most. A face is given by its number or by its remote URI.
    Errors are exceptions of `namely.errors`: `RouterRefused` if the router does not permit this user the command.
    """

    def __init__(self, router: str | None = None) -> None:
        """Connects to the router at an address such as `unix:///run/namely/namely.sock` or `tcp://host`, else to the one that
        `NAMELY_ROUTER` names, else to the first that is found at a usual place. Raises `namely.RouterUnreachable`.
        """
        self._native = _native.Router(router)

    @property
    def uri(self) -> str:
        """The router's address."""
        return self._native.uri

    def close(self) -> None:
        """Ends the connection. Further calls raise `namely.BadSocket`."""
        self._native.close()

    def __enter__(self) -> Router:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    def status(self) -> Status:
        """The general status of the router."""
        identity, tables, received, sent, ended = self._native.status()
        return Status(*identity, *tables, Traffic(*received), Traffic(*sent), *ended)

    def counters(self) -> list[Counter]:
        """Counters of dropped packets, of the router and of each face. Only namely's router has them."""
        return [Counter(*counter) for counter in self._native.counters()]

    def faces(self, *, scheme: str | None = None, remote: str | None = None) -> list[Face]:
        """All faces, or those whose URIs have the scheme (`unix`, `udp4`, …) or the remote end given."""
        return [_face(face) for face in self._native.faces(None, scheme, remote)]

    def face(self, face: int | str) -> Face:
        """One face. Raises `namely.NameNotFound` if there is none."""
        found = self._native.faces(self._face_id(face), None, None)
        if not found:
            raise NameNotFound.because(f"there is no face {face}")
        return _face(found[0])

    def channels(self) -> list[str]:
        """The local URIs at which the router listens for new faces."""
        return self._native.channels()

    def create_face(
        self,
        remote: str,
        *,
        local: str | None = None,
        persistency: Persistency | None = None,
        mtu: int | None = None,
        reliability: bool | None = None,
        congestion_marking: bool | None = None,
        local_fields: bool | None = None,
    ) -> Face:
        """Creates a face to a URI such as `udp://192.0.2.7`, or finds the one that is there; a host name is looked up here.

        `local` matters for Ethernet only (`dev://eth0`). The router chooses the properties that are not given.
        """
        properties = (persistency, mtu, reliability, congestion_marking, local_fields)
        return self.face(self._native.create_face(remote, local, properties))

    def update_face(
        self,
        face: int | str,
        *,
        persistency: Persistency | None = None,
        mtu: int | None = None,
        reliability: bool | None = None,
        congestion_marking: bool | None = None,
        local_fields: bool | None = None,
    ) -> Face:
        """Changes the given properties of a face, and returns the face."""
        face_id = self._face_id(face)
        properties = (persistency, mtu, reliability, congestion_marking, local_fields)
        self._native.update_face(face_id, properties)
        return self.face(face_id)

    def destroy_face(self, face: int | str) -> None:
        """Destroys a face. A face given by number need not exist."""
        self._native.destroy_face(self._face_id(face))

    def face_events(self, *, timeout: float | None = None) -> Iterator[FaceEvent]:
        """Events of faces as they happen, from the newest one so far, until none comes for `timeout` seconds."""
        after = None
        while True:
            try:
                event = FaceEvent(*self._native.next_face_event(after, timeout))
            except Timeout:
                return
            yield event
            after = event.number

    def routes(self) -> list[Route]:
        """All routes (the RIB)."""
        return [Route(*route) for route in self._native.routes()]

    def fib(self) -> list[NextHop]:
        """The next hops that the router computes from the routes (the FIB)."""
        return [NextHop(*next_hop) for next_hop in self._native.fib()]

    def add_route(
        self,
        prefix: str,
        face: int | str,
        *,
        cost: int = 0,
        origin: str = "static",
        child_inherit: bool = True,
        capture: bool = False,
        expires: float | None = None,
    ) -> int:
        """Adds a route of `prefix` to a face, and returns the face's number. A URI without a face gets one.

        `expires`: seconds until the router removes the route. A prefix has one route for each face and origin; adding it again
        changes it.
        """
        face_id = self._native.find_or_create_face(face) if isinstance(face, str) else face
        self._native.add_route(prefix, face_id, origin, cost, child_inherit, capture, expires)
        return face_id

    def remove_route(self, prefix: str, face: int | str, *, origin: str = "static") -> None:
        """Removes a route, if it exists."""
        self._native.remove_route(prefix, self._face_id(face), origin)

    def strategies(self) -> list[StrategyChoice]:
        """The prefixes with their strategies."""
        return [StrategyChoice(*choice) for choice in self._native.strategies()]

    def set_strategy(self, prefix: str, strategy: str) -> str:
        """Chooses the strategy below `prefix`, by its full name or a short one (`multicast`), and returns its full name."""
        return self._native.set_strategy(prefix, strategy)

    def unset_strategy(self, prefix: str) -> None:
        """Removes the choice at `prefix`, if there is one."""
        self._native.unset_strategy(prefix)

    def content_store(self) -> ContentStore:
        """Capacity, contents and hits of the content store."""
        return ContentStore(*self._native.content_store())

    def configure_content_store(
        self,
        *,
        capacity: int | None = None,
        admit: bool | None = None,
        serve: bool | None = None,
        policy: str | None = None,
    ) -> ContentStore:
        """Changes the given properties, and returns the content store's state. Only namely's router has policies to choose."""
        self._native.configure_content_store(capacity, admit, serve, policy)
        return self.content_store()

    def erase(self, prefix: str, count: int | None = None) -> int:
        """Erases stored Data below `prefix`, `count` packets at most, and returns their number."""
        return self._native.erase(prefix, count)

    def _face_id(self, face: int | str) -> int:
        return self._native.find_face(face) if isinstance(face, str) else face


def _face(native: _native._Face) -> Face:
    identity, properties, received, sent = native
    return Face(*identity, *properties, Traffic(*received), Traffic(*sent))
