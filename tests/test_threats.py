"""The page of threats: whatever cannot be done names a test, and every test exists."""

import re

from tests.test_limits import ROOT, exists

PAGE = ROOT / "docs/threats.md"


def rows() -> list[tuple[str, str, list[str]]]:
    """What, whether it is possible, and the tests."""
    found = []
    for line in PAGE.read_text().splitlines():
        if line.startswith("|") and not line.startswith(("| what |", "| --- |")):
            what, possible, why = (cell.strip() for cell in line[1:-1].split("|"))
            tests = re.findall(r"`((?:tests|properties)/[^`]+)`", why)
            found.append((what, possible, tests))
    return found


def test_each_row_has_an_answer() -> None:
    """Yes or no."""
    assert len(rows()) > 40
    assert {"yes", "no"} == {possible for _, possible, _ in rows()}


def test_what_is_not_possible_is_tried() -> None:
    """By a test that the row names."""
    assert [] == [
        what for what, possible, tests in rows() if possible == "no" and not tests
    ]


def test_every_test_exists() -> None:
    """By its path and name."""
    assert [] == [test for *_, tests in rows() for test in tests if not exists(test)]
