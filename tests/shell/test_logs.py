"""Log lines of the command line."""

import logging
from pathlib import Path

import pytest

from speedtronic.errors import StorageError
from speedtronic.shell.logs import logging_to

logger = logging.getLogger("speedtronic.test")


def test_information_is_plain_and_warnings_say_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Lines go to the error stream; standard output stays free for results."""
    with logging_to("INFO"):
        logger.debug("hidden")
        logger.info("step %d", 1)
        logger.warning("beware")
    captured = capsys.readouterr()

    assert ("", "step 1\nwarning: beware\n") == (captured.out, captured.err)


def test_the_level_hides_step_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """WARNING makes a quiet run."""
    with logging_to("WARNING"):
        logger.info("step 1")

    assert "" == capsys.readouterr().err


def test_a_file_gets_dated_lines_without_escape_codes(tmp_path: Path) -> None:
    """The folder is made; lines are appended."""
    file = tmp_path / "logs" / "run.log"
    for _ in range(2):
        with logging_to("INFO", file):
            logger.info("step 1")
    lines = file.read_text().splitlines()

    assert 2 == len(lines)
    assert all(x.endswith(" INFO speedtronic.test: step 1") for x in lines)
    assert "\x1b" not in file.read_text()


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """The path and the reason, in one line."""
    with (
        pytest.raises(StorageError, match="cannot be written"),
        logging_to("INFO", tmp_path),
    ):
        pass


def test_logging_of_the_program_is_left_alone() -> None:
    """The root logger keeps its handlers, ours are gone at the end."""
    ours = logging.getLogger("speedtronic")
    root = logging.getLogger()
    before = (list(root.handlers), root.level, ours.level, ours.propagate)
    with logging_to("DEBUG"):
        assert before[:2] == (list(root.handlers), root.level)

    assert before == (list(root.handlers), root.level, ours.level, ours.propagate)
    assert [] == ours.handlers


def test_an_error_in_the_block_still_restores(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Handlers never pile up."""
    with pytest.raises(KeyError), logging_to("INFO"):
        raise KeyError
    with logging_to("INFO"):
        logger.info("once")

    assert "once\n" == capsys.readouterr().err
