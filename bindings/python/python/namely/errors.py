"""Errors of sockets: one class for each errno of docs/sockets.md.

Every class is an `Error`, which is an `OSError`: `errno` is the same number as in C and Rust, `strerror`
has the reason and, where there is one, the remedy. If Python has an exception for the condition, the class is derived from
it, too, so that code that handles files handles these:

>>> issubclass(NameNotFound, FileNotFoundError), issubclass(Timeout, TimeoutError)
(True, True)
>>> issubclass(KeyExpired, VerificationError), issubclass(VerificationError, PermissionError)
(True, True)
"""

from __future__ import annotations

import errno as _errno
from typing import ClassVar, TypeVar

_E = TypeVar("_E", bound="Error")

_classes: dict[int, type[Error]] = {}


class Error(OSError):
    """A failed call of a socket; `errno` has its kind."""

    _errno: ClassVar[int | None] = None

    def __init_subclass__(cls, errno: int | None = None) -> None:
        super().__init_subclass__()
        if errno is not None:
            cls._errno = errno
            _classes[errno] = cls

    @classmethod
    def because(cls: type[_E], why: str) -> _E:
        """The exception with this reason."""
        return cls(cls._errno, why)


class RouterUnreachable(Error, ConnectionRefusedError, errno=_errno.ECONNREFUSED):
    """No router is there (`ECONNREFUSED`). `namely up` starts one."""


class NotConnected(Error, errno=_errno.ENOTCONN):
    """The link to the router is gone (`ENOTCONN`)."""


class PrefixInUse(Error, errno=_errno.EADDRINUSE):
    """The prefix overlaps a bound one, or another producer has the store (`EADDRINUSE`)."""


class RouterRefused(Error, PermissionError, errno=_errno.EACCES):
    """The router does not let this user register the prefix (`EACCES`)."""


class OutsidePrefix(Error, errno=_errno.EADDRNOTAVAIL):
    """The name is not below the socket's prefix (`EADDRNOTAVAIL`)."""


class NameTooLong(Error, errno=_errno.ENAMETOOLONG):
    """A prefix or name is longer than sockets take (`ENAMETOOLONG`)."""


class MessageTooLarge(Error, errno=_errno.EMSGSIZE):
    """A datagram is larger than a packet (`EMSGSIZE`)."""


class ObjectTooLarge(Error, errno=_errno.EFBIG):
    """An object is larger than `object_octets_max` (`EFBIG`)."""


class NoRoute(Error, errno=_errno.ENETUNREACH):
    """The router, or one behind it, has no route to the name (`ENETUNREACH`)."""


class NameNotFound(Error, FileNotFoundError, errno=_errno.ENOENT):
    """The producer denies that the object exists (`ENOENT`)."""


class IsDirectory(Error, IsADirectoryError, errno=_errno.EISDIR):
    """The name is that of a directory, which has no content (`EISDIR`)."""


class VersionExists(Error, FileExistsError, errno=_errno.EEXIST):
    """The version is published already, with other content: names are immutable (`EEXIST`)."""


class Timeout(Error, TimeoutError, errno=_errno.ETIMEDOUT):
    """No answer came in time, or the producer vanished midway (`ETIMEDOUT`)."""


class SegmentLost(Error, errno=_errno.ENODATA):
    """A segment did not come, and the consumer is unreliable (`ENODATA`). The next read of a file continues after it."""


class VerificationError(Error, PermissionError):
    """The content is not from a trusted producer. None of it was returned. The subclasses have the reasons."""


class CertificateMissing(VerificationError, errno=_errno.ENOKEY):
    """The certificate of the signing key cannot be fetched (`ENOKEY`)."""


class KeyRejected(VerificationError, errno=_errno.EKEYREJECTED):
    """The key that signed is not trusted for the name (`EKEYREJECTED`)."""


class KeyExpired(VerificationError, errno=_errno.EKEYEXPIRED):
    """The certificate is expired or not valid yet. Producers raise it if the key chain has no newer one (`EKEYEXPIRED`)."""


class KeyRevoked(VerificationError, errno=_errno.EKEYREVOKED):
    """The certificate was revoked (`EKEYREVOKED`)."""


class Corrupted(VerificationError, errno=_errno.EBADMSG):
    """A segment or manifest does not match its signature or digest (`EBADMSG`)."""


class WouldBlock(Error, BlockingIOError, errno=_errno.EAGAIN):
    """There is nothing yet, and the call does not wait (`EAGAIN`)."""


class Interrupted(Error, InterruptedError, errno=_errno.EINTR):
    """A signal arrived (`EINTR`). As in all of Python, a call that waits continues if the handler raises nothing."""


class Closed(Error, errno=_errno.ECANCELED):
    """The socket was closed while the call waited (`ECANCELED`)."""


class BadSocket(Error, errno=_errno.EBADF):
    """The socket was closed before the call (`EBADF`)."""


class Forked(Error, errno=_errno.EBADFD):
    """The process forked after the socket was made: only the parent may use it (`EBADFD`)."""


class QueueFull(Error, errno=_errno.ENOBUFS):
    """A queue is full (`ENOBUFS`)."""


class DiskFull(Error, errno=_errno.ENOSPC):
    """The disk under the output buffer is full (`ENOSPC`)."""


class TooManySockets(Error, errno=_errno.EMFILE):
    """The process has its maximum of sockets or descriptors (`EMFILE`)."""


class InvalidArgument(Error, ValueError, errno=_errno.EINVAL):
    """A value is not one that this option, name or call takes (`EINVAL`)."""


class UnknownOption(Error, ValueError, errno=_errno.ENOPROTOOPT):
    """There is no option of this name (`ENOPROTOOPT`)."""


class NotSupported(Error, errno=_errno.EOPNOTSUPP):
    """This socket does not do that (`EOPNOTSUPP`)."""


def from_errno(number: int, message: str, name: str | None = None) -> Error:
    """The exception for an errno; `name` becomes `filename`, as for files.

    >>> from_errno(2, "the producer has no such object", "/lab/x")
    NameNotFound(2, 'the producer has no such object')
    """
    return _classes.get(number, Error)(number, message, name)
