"""What goes wrong with sockets: one class for each errno of docs/sockets.md.

Every class is an `Error`, which is an `OSError`: `errno` is the number that the sockets of C and Rust give too, `strerror`
says what happened and, where there is something to do, what. Where Python has an exception for the condition, the class is
that too, so that code which knows files knows these:

>>> issubclass(NameNotFound, FileNotFoundError), issubclass(Timeout, TimeoutError)
(True, True)
>>> issubclass(KeyExpired, VerificationError), issubclass(VerificationError, PermissionError)
(True, True)
"""

from __future__ import annotations

import errno as _errno
from typing import ClassVar

_classes: dict[int, type[Error]] = {}


class Error(OSError):
    """Something that a socket could not do; `errno` says what."""

    _errno: ClassVar[int | None] = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "_errno" in cls.__dict__ and cls._errno is not None:
            _classes[cls._errno] = cls


class RouterUnreachable(Error, ConnectionRefusedError):
    """No router is there (`ECONNREFUSED`). `namely up` starts one."""

    _errno = _errno.ECONNREFUSED


class NotConnected(Error):
    """The link to the router is gone (`ENOTCONN`)."""

    _errno = _errno.ENOTCONN


class PrefixInUse(Error):
    """The prefix overlaps that of another producer of this process (`EADDRINUSE`)."""

    _errno = _errno.EADDRINUSE


class RouterRefused(Error, PermissionError):
    """The router does not let this user register the prefix (`EACCES`)."""

    _errno = _errno.EACCES


class OutsidePrefix(Error):
    """The name is not below the socket's prefix (`EADDRNOTAVAIL`)."""

    _errno = _errno.EADDRNOTAVAIL


class NameTooLong(Error):
    """A prefix or name is longer than sockets take (`ENAMETOOLONG`)."""

    _errno = _errno.ENAMETOOLONG


class MessageTooLarge(Error):
    """A datagram is larger than a packet (`EMSGSIZE`)."""

    _errno = _errno.EMSGSIZE


class ObjectTooLarge(Error):
    """An object is larger than `object_octets_max` (`EFBIG`)."""

    _errno = _errno.EFBIG


class NoRoute(Error):
    """No route leads to the name (`ENETUNREACH`)."""

    _errno = _errno.ENETUNREACH


class NameNotFound(Error, FileNotFoundError):
    """The producer says that there is no such object (`ENOENT`)."""

    _errno = _errno.ENOENT


class VersionExists(Error, FileExistsError):
    """The version is published already, with other content: names are immutable (`EEXIST`)."""

    _errno = _errno.EEXIST


class Timeout(Error, TimeoutError):
    """No answer came in time; also from a producer that vanished midway (`ETIMEDOUT`)."""

    _errno = _errno.ETIMEDOUT

    @classmethod
    def now(cls) -> Timeout:
        """The exception of a wait that ends now."""
        return cls(cls._errno, "not in time")


class VerificationError(Error, PermissionError):
    """What came is not from whom it must be. Nothing of it was handed out. Its subclasses say why."""


class CertificateMissing(VerificationError):
    """The certificate of the key that signed cannot be had (`ENOKEY`)."""

    _errno = _errno.ENOKEY


class KeyRejected(VerificationError):
    """The key that signed is not trusted for the name (`EKEYREJECTED`)."""

    _errno = _errno.EKEYREJECTED


class KeyExpired(VerificationError):
    """The certificate is expired, or not valid yet (`EKEYEXPIRED`)."""

    _errno = _errno.EKEYEXPIRED


class KeyRevoked(VerificationError):
    """The certificate was revoked (`EKEYREVOKED`)."""

    _errno = _errno.EKEYREVOKED


class Corrupted(VerificationError):
    """A segment or manifest is not what was signed (`EBADMSG`)."""

    _errno = _errno.EBADMSG


class WouldBlock(Error, BlockingIOError):
    """There is nothing yet, and the call was not to wait (`EAGAIN`)."""

    _errno = _errno.EAGAIN


class Interrupted(Error, InterruptedError):
    """A signal came (`EINTR`). Calls that wait go on after a signal whose handler raises nothing, as all of Python's do."""

    _errno = _errno.EINTR


class Closed(Error):
    """The socket was closed while the call waited (`ECANCELED`)."""

    _errno = _errno.ECANCELED


class BadSocket(Error):
    """The socket was closed before the call (`EBADF`)."""

    _errno = _errno.EBADF


class Forked(Error):
    """The process forked after the socket was made: only the parent may use it (`EBADFD`)."""

    _errno = _errno.EBADFD


class QueueFull(Error):
    """A queue is full (`ENOBUFS`)."""

    _errno = _errno.ENOBUFS


class DiskFull(Error):
    """The disk under the output buffer is full (`ENOSPC`)."""

    _errno = _errno.ENOSPC


class TooManySockets(Error):
    """The process has as many sockets or descriptors as it may (`EMFILE`)."""

    _errno = _errno.EMFILE


class InvalidArgument(Error, ValueError):
    """A value is not one that this option, name or call takes (`EINVAL`)."""

    _errno = _errno.EINVAL


class UnknownOption(Error, ValueError):
    """There is no option of this name (`ENOPROTOOPT`)."""

    _errno = _errno.ENOPROTOOPT


class NotSupported(Error):
    """This socket does not do that (`EOPNOTSUPP`)."""

    _errno = _errno.EOPNOTSUPP

    @classmethod
    def because(cls, why: str) -> NotSupported:
        """The exception that says why."""
        return cls(cls._errno, why)


def from_errno(number: int, message: str, name: str | None = None) -> Error:
    """The exception for an errno; `name` becomes `filename`, as for files.

    >>> from_errno(2, "the producer has no such object", "/lab/x")
    NameNotFound(2, 'the producer has no such object')
    """
    return _classes.get(number, Error)(number, message, name)
