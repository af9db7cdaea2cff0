"""Measured tables in documents, between two marks that nobody writes by hand."""

from collections.abc import Iterable
from pathlib import Path


def replaced(text: str, name: str, lines: Iterable[str]) -> str:
    """The text with other lines between the marks of a name.

    Raises:
        ValueError: the marks are not there.

    >>> replaced("a\\n<!-- t -->\\nold\\n<!-- end of t -->\\nb\\n", "t", ["new"])
    'a\\n<!-- t -->\\n\\nnew\\n\\n<!-- end of t -->\\nb\\n'
    """
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, found_begin, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise ValueError(f"expected the marks {begin} and {end}, found not both")
    return before + "\n".join([begin, "", *lines, "", end]) + after


def rewrite(path: Path, name: str, lines: Iterable[str]) -> None:
    """Do it in a file."""
    text = path.read_text("utf-8")
    path.write_text(replaced(text, name, lines), "utf-8")
