"""Named Data Networking for Python: sockets on which a name replaces an address.

A `Consumer` fetches what is named below its prefix, verified; a `Producer` publishes there. `namely.aio` has both for
asyncio, and `namely.filesystem` lets fsspec, pandas and uproot read by name. What goes wrong is an exception of
`namely.errors`, all of them `OSError`s.
"""

from __future__ import annotations

from namely.errors import (
    BadSocket,
    CertificateMissing,
    Closed,
    Corrupted,
    DiskFull,
    Error,
    Forked,
    Interrupted,
    InvalidArgument,
    KeyExpired,
    KeyRejected,
    KeyRevoked,
    MessageTooLarge,
    NameNotFound,
    NameTooLong,
    NoRoute,
    NotConnected,
    NotSupported,
    ObjectTooLarge,
    OutsidePrefix,
    PrefixInUse,
    QueueFull,
    RouterRefused,
    RouterUnreachable,
    Timeout,
    TooManySockets,
    UnknownOption,
    VerificationError,
    WouldBlock,
)
from namely.names import canonical, components, join
from namely.sockets import Consumer, Producer, Published

__all__ = [
    "BadSocket",
    "CertificateMissing",
    "Closed",
    "Consumer",
    "Corrupted",
    "DiskFull",
    "Error",
    "Forked",
    "Interrupted",
    "InvalidArgument",
    "KeyExpired",
    "KeyRejected",
    "KeyRevoked",
    "MessageTooLarge",
    "NameNotFound",
    "NameTooLong",
    "NoRoute",
    "NotConnected",
    "NotSupported",
    "ObjectTooLarge",
    "OutsidePrefix",
    "PrefixInUse",
    "Producer",
    "Published",
    "QueueFull",
    "RouterRefused",
    "RouterUnreachable",
    "Timeout",
    "TooManySockets",
    "UnknownOption",
    "VerificationError",
    "WouldBlock",
    "canonical",
    "components",
    "join",
]
