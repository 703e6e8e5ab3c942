"""One class for each errno, which is Python's own exception where there is one."""

from __future__ import annotations

import errno
import pathlib
import re

import pytest

import namely
from namely.errors import from_errno

DOCUMENT = pathlib.Path(__file__).parents[3] / "docs" / "sockets.md"


def documented() -> list[str]:
    """The errnos of the table in docs/sockets.md, except those with the usual meaning on every socket."""
    section = DOCUMENT.read_text().split("\n## Errors\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `E")]
    return [name for row in rows[:-1] for name in re.findall("`(E[A-Z]+)`", row)]


def test_the_table_is_found() -> None:
    assert len(documented()) > 15


@pytest.mark.parametrize("name", documented())
def test_each_errno_of_the_table_has_its_class(name: str) -> None:
    error = from_errno(getattr(errno, name), "said", "/lab/x")
    assert type(error) is not namely.Error
    assert isinstance(error, namely.Error)
    assert (error.errno, error.strerror, error.filename) == (getattr(errno, name), "said", "/lab/x")
    plain = OSError(getattr(errno, name), "said")
    assert isinstance(error, type(plain)), "the exception that Python has for this errno"


def test_an_errno_without_a_class_is_an_error() -> None:
    error = from_errno(errno.EIO, "said")
    assert type(error) is namely.Error
    assert error.errno == errno.EIO


def test_what_is_not_verified_is_no_missing_file() -> None:
    for error in (namely.CertificateMissing, namely.KeyRejected, namely.KeyExpired, namely.KeyRevoked, namely.Corrupted):
        assert issubclass(error, namely.VerificationError)
        assert issubclass(error, PermissionError)
        assert not issubclass(error, FileNotFoundError)
