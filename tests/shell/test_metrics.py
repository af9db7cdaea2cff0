"""The metrics file: strict, whole lines, each step once."""

import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from speedtronic.errors import RunError, StorageError
from speedtronic.shell.metrics import (
    MetricLog,
    read_log,
    recent_records,
    resume_log,
    start_log,
)
from speedtronic.testing.records import example_record


def strict_lines(path: Path) -> list[dict[str, Any]]:
    """Every line, by a parser that knows no NaN."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} in {path}")

    text = path.read_bytes()
    assert text == b"" or text.endswith(b"\n")
    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def start(path: Path, **changes: Any) -> MetricLog:
    return start_log(path, **({"every": 1, "last_step": 10} | changes))


def resume(path: Path, step: int) -> MetricLog:
    return resume_log(path, step, every=1, last_step=10)


def steps(path: Path) -> list[int]:
    return [
        line["step"] for line in strict_lines(path) if line["event"] == "train_step"
    ]


def test_a_record_is_one_line_at_once(tmp_path: Path) -> None:
    """The line is in the file when `write` returns."""
    path = tmp_path / "new" / "metrics.jsonl"
    log = start(path)
    log.write(example_record(1, metrics={"entropy": 0.5}))
    (line,) = strict_lines(path)
    log.close()

    assert ("train_step", 1, 10.0, {"entropy": 0.5}) == (
        line["event"],
        line["step"],
        line["loss"],
        line["metrics"],
    )


def test_non_finite_steps_are_shown_in_strict_json(tmp_path: Path) -> None:
    """A NaN loss is null and named, and reads back as NaN."""
    path = tmp_path / "metrics.jsonl"
    with start(path) as log:
        log.write(example_record(1, loss=float("nan"), gradient_norm=float("inf")))
    (line,) = strict_lines(path)
    (read,) = read_log(path)

    assert (None, {"/loss": "NaN", "/gradient_norm": "Infinity"}) == (
        line["loss"],
        line["non_finite"],
    )
    assert read["loss"] != read["loss"]
    assert float("inf") == read["gradient_norm"]


def test_the_log_knows_which_steps_are_due(tmp_path: Path) -> None:
    """The cadence is asked before a record exists."""
    with start(tmp_path / "m", every=4, last_step=10) as log:
        assert [1, 4, 8, 10] == [step for step in range(1, 11) if log.due(step)]


def test_events_carry_step_attempt_and_time(tmp_path: Path) -> None:
    """Every line says when it happened."""
    path = tmp_path / "m"
    with start(path, clock=lambda: 12.5) as log:
        log.event("checkpoint", 5, path=Path("checkpoints/5"), seconds=0.25)

    assert [
        {
            "event": "checkpoint",
            "step": 5,
            "attempt": 1,
            "time": 12.5,
            "path": "checkpoints/5",
            "seconds": 0.25,
        }
    ] == strict_lines(path)


def test_an_unknown_event_is_refused(tmp_path: Path) -> None:
    """The list of events is closed."""
    with start(tmp_path / "m") as log, pytest.raises(ValueError, match="'chekpoint'"):
        log.event("chekpoint", 1)


def test_skipped_steps_get_a_line_of_their_own(tmp_path: Path) -> None:
    """It comes with the next record, and counts what is new."""
    path = tmp_path / "m"
    with start(path) as log:
        for step, skipped in [(1, 0), (2, 2), (3, 2), (4, 3)]:
            log.write(example_record(step, skipped_steps=skipped))

    assert [(2, 2), (4, 1)] == [
        (line["step"], line["skipped"])
        for line in strict_lines(path)
        if line["event"] == "optimizer_step_skipped"
    ]


def test_a_new_run_does_not_mix_with_another(tmp_path: Path) -> None:
    """A file with records is refused, and replaced only on demand."""
    path = tmp_path / "m"
    with start(path) as log:
        log.write(example_record(1))
    with pytest.raises(RunError, match="holds the records of another run"):
        start(path)
    with start(path, overwrite=True) as log:
        log.write(example_record(2))

    assert [2] == steps(path)


def test_resume_removes_later_steps_and_keeps_the_rest_byte_for_byte(
    tmp_path: Path,
) -> None:
    """Logged to 8, resumed from 5: the dead attempt's 6 to 8 are gone."""
    path = tmp_path / "m"
    with start(path) as log:
        log.event("train_start", 0)
        for step in range(1, 9):
            log.write(example_record(step))
        log.event("checkpoint", 5)  # written behind the training
        log.event("checkpoint", 8)
    before = path.read_bytes().splitlines(keepends=True)
    with resume(path, 5) as log:
        for step in range(6, 11):
            log.write(example_record(step, attempt=log.attempt))
    after = path.read_bytes().splitlines(keepends=True)

    assert list(range(1, 11)) == steps(path)
    assert [*before[:6], before[9]] == after[:7]
    assert ("resume", 2, 4) == tuple(
        strict_lines(path)[7][name] for name in ("event", "attempt", "removed_lines")
    )


def test_resume_without_stale_lines_does_not_rewrite(tmp_path: Path) -> None:
    """The same file is appended to."""
    path = tmp_path / "m"
    with start(path) as log:
        log.write(example_record(1))
    inode = path.stat().st_ino
    resume(path, 1).close()

    assert inode == path.stat().st_ino


def test_attempts_are_counted_even_when_their_lines_go(tmp_path: Path) -> None:
    """An attempt's number is never used twice."""
    path = tmp_path / "m"
    with start(path) as log:
        log.event("train_start", 0)
    for expected, step in [(2, 5), (3, 2), (4, 2)]:
        with resume(path, step) as log:
            log.write(example_record(step + 1, attempt=log.attempt))
            assert expected == log.attempt


def test_summaries_cover_earlier_attempts(tmp_path: Path) -> None:
    """Loss, best validation loss and the last record survive a resume."""
    path = tmp_path / "m"
    with start(path) as log:
        for step in range(1, 9):
            validation = 100.0 - step if step % 2 == 0 else None
            log.write(example_record(step, validation_loss=validation))
    with resume(path, 5) as log:
        past = log.past

    assert (5, (5, 2.0), (4, 96.0), 5) == (
        past.loss.count,
        past.loss.min,
        past.validation_loss.min,
        past.last and past.last.step,
    )


def test_history_is_what_still_counts(tmp_path: Path) -> None:
    """Trackers read earlier records, never those of this attempt."""
    path = tmp_path / "m"
    with start(path) as log:
        assert [] == list(log.history())
        for step in range(1, 9):
            log.write(example_record(step))
    with resume(path, 5) as log:
        log.write(example_record(6))
        seen = [record.step for record in log.history(after=2)]

    assert [3, 4, 5] == seen


def test_every_torn_last_line_is_repaired(tmp_path: Path) -> None:
    """Cut anywhere in the last line: the lines before stay."""
    path = tmp_path / "m"
    with start(path) as log:
        log.write(example_record(1))
        whole = path.read_bytes()
        log.write(example_record(2))
    both = path.read_bytes()
    for size in (*range(len(whole), len(both), 50), len(both) - 2, len(both) - 1):
        path.write_bytes(both[:size])
        resume(path, 2).close()

        assert whole == path.read_bytes()[: len(whole)]
        assert [1] == steps(path)


def test_damaged_lines_are_removed_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Zeros after a power failure, invalid JSON and half a record."""
    path = tmp_path / "m"
    with start(path) as log:
        log.write(example_record(1))
    whole = path.read_bytes()
    damage = b'\0\0\0\n{"loss": NaN}\n{"event": "train_step", "step": 2}\n[1]\n'
    path.write_bytes(whole + damage + b'{"mine": 1}\n')
    resume(path, 5).close()

    assert [f"{path}: removed 4 damaged lines, the first is line 2"] == caplog.messages
    assert whole + b'{"mine": 1}\n' == b"".join(
        path.read_bytes().splitlines(keepends=True)[:2]
    )


def test_a_missing_file_is_begun_anew_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A deleted log does not stop a resume."""
    resume(tmp_path / "m", 5).close()

    assert 1 == len(caplog.messages) and "not found" in caplog.text


def test_a_reader_leaves_out_a_line_that_is_being_written(tmp_path: Path) -> None:
    """Readers of a live run see whole lines only, and are told of damage."""
    path = tmp_path / "m"
    path.write_bytes(b'{"a": 1}\n{"a": 2')
    assert [{"a": 1}] == list(read_log(path))
    path.write_bytes(b'{"a": 1}\n{"a": 2\n')
    with pytest.raises(ValueError, match="m, line 2: "):
        list(read_log(path))


def test_a_folder_that_cannot_be_written_is_found_at_the_start(tmp_path: Path) -> None:
    """The path and the reason, before the first step."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="file/m cannot be written: "):
        start(tmp_path / "file" / "m")


def test_closing_twice_is_fine_and_writing_after_is_not(tmp_path: Path) -> None:
    """A closed log says so."""
    log = start(tmp_path / "m")
    log.close()
    log.close()
    with pytest.raises(ValueError, match="is closed"):
        log.event("train_end", 1)


FULL_DISK = """
    import logging, resource, sys
    from pathlib import Path
    from speedtronic.shell.metrics import start_log
    from speedtronic.testing.records import example_record

    logging.basicConfig(format="%(message)s")
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
    with start_log(Path(sys.argv[1]), every=1, last_step=None) as log:
        for step in range(1, 21):
            if step == 11:
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
            log.write(example_record(step))
"""


def test_a_full_disk_is_said_once_and_never_stops_the_run(tmp_path: Path) -> None:
    """Lines that do not fit are lost whole; later ones are written again."""
    path = tmp_path / "m"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FULL_DISK), str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    written = steps(path)
    lost = 20 - len(written)

    assert [*range(1, 11 - lost), *range(11, 21)] == written
    assert 0 < lost < 10
    assert [
        f"{path} cannot be written: the file is larger than this process may write "
        "(ulimit -f); training goes on without these lines",
        f"{path}: {lost} lines were lost",
    ] == done.stderr.splitlines()


WRITER = """
    import sys
    from pathlib import Path
    from speedtronic.shell.metrics import resume_log, start_log
    from speedtronic.testing.records import example_record

    path, step = Path(sys.argv[1]), int(sys.argv[2])
    options = {"every": 1, "last_step": None}
    log = resume_log(path, step, **options) if step else start_log(path, **options)
    while True:
        step += 1
        log.write(example_record(step, attempt=log.attempt, metrics={"x": step}))
        print(step, flush=True)
"""


def test_a_killed_writer_leaves_a_file_that_resume_repairs(tmp_path: Path) -> None:
    """SIGKILL at several points, each resume from an earlier step: each step once."""
    path = tmp_path / "m"
    step = 0
    for told in (3, 40, 171):
        command = [sys.executable, "-c", textwrap.dedent(WRITER), str(path), str(step)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(told):
                reached = int(process.stdout.readline())
            process.send_signal(signal.SIGKILL)
        last_line = path.read_bytes().splitlines(keepends=True)[-1]
        assert reached <= sum(1 for _ in read_log(path)) + int(last_line[-1:] != b"\n")
        step = reached - 2
        resume(path, step).close()

        assert list(range(1, step + 1)) == steps(path)


def test_the_newest_records_are_read_from_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as there is room for; no file and half a line hold none."""
    path = tmp_path / "m"
    assert [] == recent_records(path)
    with start(path) as log:
        for step in range(1, 9):
            log.write(example_record(step))
            log.event("checkpoint", step)
    with path.open("ab") as file:
        file.write(b'{"event": "train_step", "step": 9')
    assert list(range(1, 9)) == [record.step for record in recent_records(path)]
    monkeypatch.setattr("speedtronic.shell.metrics._RECENT", 2000)

    assert [7, 8] == [record.step for record in recent_records(path)][-2:]
    assert 8 > len(recent_records(path))
