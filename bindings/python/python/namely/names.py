"""Names, which are text everywhere in this package: NDN URIs such as `/lab/data/run%207/v=3`.

A component that holds a slash, a space or a percent sign is written with `%`: let `join` do that.
"""

from __future__ import annotations

from namely import _native


def canonical(name: str) -> str:
    """The name as the network's tools print it. Two names are the same if their canonical forms are.

    >>> canonical("ndn:///lab/data/run%37")
    '/lab/data/run7'

    Raises `namely.InvalidArgument` if it is no name.
    """
    return _native.canonical(name)


def join(name: str, *components: str) -> str:
    """The name with these components below it, each any text.

    >>> join("/lab/data", "run 7", "50% done.txt")
    '/lab/data/run%207/50%25%20done.txt'
    """
    return _native.join(name, list(components))


def components(name: str) -> list[str]:
    """The components of the name, in canonical form.

    >>> components("/lab/data/v=3")
    ['lab', 'data', 'v=3']
    """
    return _native.components(name)
