"""Names are text; other text is an error."""

from __future__ import annotations

import errno

import pytest

import namely


def test_one_name_has_one_form() -> None:
    for text in ("/lab/x", "ndn:/lab/x", "ndn:///lab/x/", "/%6cab/x", "/8=lab/x"):
        assert namely.canonical(text) == "/lab/x"
    assert namely.canonical("/") == "/"


def test_any_text_becomes_a_component() -> None:
    for text in ("a b", "ä", "50%", "a/b", "v=3", "..", "...", "", "a\nb"):
        name = namely.join("/lab", text)
        assert len(namely.components(name)) == 2
        assert namely.canonical(name) == name
    assert namely.join("/lab") == "/lab"


@pytest.mark.parametrize("text", ["lab/x", "x", "", "ndn://lab/x", "//lab/x", "/a/%2", "/a/..", "/a//b", "/v=x", "/sha256digest=00", "/0=a", "/70000=a", "/a" * 129])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(namely.InvalidArgument) as caught:
        namely.canonical(text)
    assert caught.value.errno == errno.EINVAL
    assert caught.value.filename == text


def test_a_name_is_text() -> None:
    with pytest.raises(TypeError):
        namely.canonical(b"/lab")  # type: ignore[arg-type]
