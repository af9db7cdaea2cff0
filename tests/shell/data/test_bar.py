"""The bar of a preparation."""

import io

import pytest

from speedtronic.shell.data.bar import preparing
from speedtronic.shell.data.prepare import silent


class Terminal(io.StringIO):
    """Text that is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def test_a_terminal_shows_each_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of the file, and how much of it is done."""
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with preparing(stream=stream) as progress:
        progress("books/a.txt", 5, 10)
        progress("books/b.txt", 10, 10)

    assert "preparing a.txt" in stream.getvalue()
    assert "preparing b.txt" in stream.getvalue()
    assert "5/10 bytes" in stream.getvalue()


@pytest.mark.parametrize(
    ("stream", "enabled", "term"),
    [
        (io.StringIO(), True, "xterm"),
        (Terminal(), False, "xterm"),
        (Terminal(), True, "dumb"),
    ],
)
def test_elsewhere_nothing_is_shown(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, enabled: bool, term: str
) -> None:
    """No bar, no escape code."""
    monkeypatch.setenv("TERM", term)
    with preparing(enabled, stream) as progress:
        progress("a.txt", 5, 10)

        assert silent is progress

    assert "" == stream.getvalue()
