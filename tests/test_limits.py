"""The page of limits: every row has a verdict, and every test it names exists."""

import ast
from functools import cache
from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/limits.md"
VERDICTS = ("closed", "open", "non-goal")
ROWS = {  # by heading; the list of 2.0 does not grow any more
    "Pickle-capable local files": 4,
    "Hub writer trust": 14,
    "Secret handling": 5,
    "Repository privacy": 1,
    "Path trust": 5,
    "Denial of service": 2,
    "Known correctness and design issues": 15,
    "v2 limitations": 7,
    "Distributed correctness limitations": 14,
    "API and maintenance limitations": 10,
    "Performance limitations": 6,
    "Explicit non-goals": 10,
    "Recommendations": 10,
}


@attrs.frozen
class Row:
    heading: str
    limit: str
    verdict: str
    fate: str
    tests: tuple[str, ...]


def rows() -> list[Row]:
    found, heading = [], ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.startswith("|") and not line.startswith(("| limit |", "| --- |")):
            limit, verdict, fate, tests = (x.strip() for x in line[1:-1].split("|"))
            named = tuple(t.strip("`") for t in tests.split(", ") if t)
            found.append(Row(heading, limit, verdict, fate, named))
    return found


@cache
def functions(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return {n.name for n in nodes if isinstance(n, ast.FunctionDef)}


def exists(test: str) -> bool:
    path, _, name = test.partition("::")
    file = ROOT / path
    return file.is_file() and name.startswith("test_") and name in functions(file)


def test_every_limit_has_a_row() -> None:
    """As many under each heading as the list of 2.0 has."""
    counted = dict.fromkeys(ROWS, 0)
    for row in rows():
        counted[row.heading] += 1

    assert ROWS == counted


def test_no_limit_stands_there_twice() -> None:
    """Each row has a name of its own."""
    names = [row.limit for row in rows()]

    assert len(set(names)) == len(names)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.limit)
def test_every_verdict_is_backed(row: Row) -> None:
    """A closed one names a test, an open one what will close it."""
    assert row.verdict in VERDICTS
    assert [] == [test for test in row.tests if not exists(test)]
    assert row.verdict != "closed" or row.tests
    assert row.verdict != "open" or row.fate.startswith("by ")


def test_a_missing_test_is_noticed() -> None:
    """The check can fail."""
    assert exists("tests/test_limits.py::test_a_missing_test_is_noticed")
    assert not exists("tests/test_limits.py::test_of_nothing")
    assert not exists("tests/test_nowhere.py::test_of_nothing")
    assert not exists("tests/test_limits.py::rows")
