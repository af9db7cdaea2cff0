"""W&B offline: the file holds each step once, and nothing is asked or sent."""

import os
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from wandb.proto import wandb_internal_pb2 as messages

from speedtronic.shell.hooks import RunInfo
from speedtronic.shell.trackers import wandb as tracker
from speedtronic.testing.records import example_record

BLOCK = 32768


def records(path: Path) -> Iterator[Any]:
    """The messages in a ``.wandb`` file: LevelDB's log format behind 7 bytes.

    W&B 0.31 has no reader in Python any more; its message types are public.
    """
    data = path.read_bytes()
    place, parts = 7, b""
    while place + 7 <= len(data):
        left = BLOCK - place % BLOCK
        if left < 7:
            place += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, place)
        if kind == 0:
            return
        parts += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            message = messages.Record()
            message.ParseFromString(parts)
            parts = b""
            yield message


def offline(folder: Path) -> list[Any]:
    """All messages of all offline files of a run."""
    files = sorted(folder.glob("wandb/offline-run-*/*.wandb"))
    return [message for file in files for message in records(file)]


def losses(folder: Path) -> list[tuple[int, str]]:
    """Step and loss of each history row, in order."""
    rows = [
        m.history for m in offline(folder) if m.WhichOneof("record_type") == "history"
    ]
    named = [{"/".join(i.nested_key): i.value_json for i in row.item} for row in rows]
    return [(int(x["_step"]), x["train/loss"]) for x in named]


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "delivered"])
def test_each_step_is_in_the_offline_file_once_after_a_resume(
    kill: bool, attempt: Callable[..., str], tmp_path: Path
) -> None:
    """Logged to 8, resumed from 5, under the same id; nothing is printed."""
    said = attempt("wandb", 0, 8, kill=kill)
    said += attempt("wandb", 5, 10)
    found = losses(tmp_path / "run")

    assert [
        *[(1, "11"), (2, "12"), (3, "13"), (4, "NaN"), (5, "15")],
        *[(step, str(20 + step)) for step in range(6, 11)],
    ] == found
    assert kill or "" == said


def test_group_is_the_run_name_is_the_node_and_secrets_stay_here(
    attempt: Callable[..., str], tmp_path: Path
) -> None:
    """What W&B knows of the run is its config and its names."""
    attempt("wandb", 0, 1)
    run = next(m.run for m in offline(tmp_path / "run") if m.HasField("run"))
    config = {item.key: item.value_json for item in run.config.update}
    files = [f.read_bytes() for f in (tmp_path / "run").rglob("*") if f.is_file()]

    assert ("run-a", "node-b", "project-c", '"***"') == (
        run.run_group,
        run.display_name,
        run.project,
        config["token"],
    )
    assert run.run_id == (tmp_path / "run/wandb/speedtronic.id").read_text()
    assert files and not any(b"very-secret-text" in data for data in files)


def test_a_run_that_was_sent_is_not_removed(
    attempt: Callable[..., str], tmp_path: Path
) -> None:
    """``wandb sync`` leaves a mark; what has it stays on disk."""
    attempt("wandb", 0, 3)
    (file,) = (tmp_path / "run").glob("wandb/offline-run-*/*.wandb")
    file.with_name(file.name + ".synced").touch()
    attempt("wandb", 2, 4)

    assert file.exists()


@pytest.fixture
def no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home without a key."""
    for name in ("API_KEY", "IDENTITY_TOKEN_FILE", "MODE", "BASE_URL"):
        monkeypatch.delenv(f"WANDB_{name}", raising=False)
    monkeypatch.delenv("NETRC", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("wanted", "without_key", "with_key"),
    [
        ("", "offline", "online"),
        ("online", "offline", "online"),
        ("offline", "offline", "offline"),
        ("dryrun", "offline", "offline"),
        ("disabled", "disabled", "disabled"),
    ],
)
def test_the_mode_never_asks_for_a_key(
    wanted: str,
    without_key: str,
    with_key: str,
    no_key: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Online needs a key; wanting it without one is told."""
    monkeypatch.setattr(tracker, "reachable", lambda: True)
    monkeypatch.setenv("WANDB_MODE", wanted)
    assert without_key == tracker.choose_mode()
    assert (wanted == "online") == ("needs a key" in caplog.text)
    monkeypatch.setenv("WANDB_API_KEY", "k" * 40)
    assert with_key == tracker.choose_mode()


def test_a_host_that_does_not_answer_keeps_a_run_offline(
    no_key: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Unless online was asked for; else the end of the run would wait for it."""
    with no_proxy(monkeypatch), socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setenv("WANDB_BASE_URL", url)
        monkeypatch.setenv("WANDB_API_KEY", "k" * 40)
        assert "online" == tracker.choose_mode()
        server.close()
        assert "" == caplog.text
        assert "offline" == tracker.choose_mode()
        assert "127.0.0.1 does not answer; W&B stays offline" in caplog.text
        monkeypatch.setenv("WANDB_MODE", "online")
        assert "online" == tracker.choose_mode()


def test_a_proxy_is_asked_instead_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host may be out of reach for all but the proxy."""
    with no_proxy(monkeypatch), socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        server.close()
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{port}")
        assert not tracker.reachable()
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        assert tracker.reachable()


@contextmanager
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without those that this machine may have."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    yield


@pytest.mark.parametrize(
    ("machine", "server", "found"),
    [
        ("api.wandb.ai", "", True),
        ("github.com", "", False),
        ("wandb.example.org", "https://wandb.example.org", True),
        ("api.wandb.ai", "https://wandb.example.org", False),
    ],
)
def test_a_key_in_a_netrc_file_counts_for_its_server(
    machine: str,
    server: str,
    found: bool,
    no_key: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A login for another machine is not a key."""
    (no_key / ".netrc").write_text(
        f"machine {machine} login user password {'k' * 40}\n"
    )
    (no_key / ".netrc").chmod(0o600)
    monkeypatch.setenv("WANDB_BASE_URL", server)

    assert found == tracker.key_configured()


def test_a_damaged_netrc_file_is_no_key(no_key: Path) -> None:
    """It is not an error either."""
    (no_key / ".netrc").write_text("machine\n")

    assert not tracker.key_configured()


def fake_wandb(monkeypatch: pytest.MonkeyPatch, starting_step: int) -> SimpleNamespace:
    """A module that notes the steps it is sent, as ``steps``."""
    fake = SimpleNamespace(steps=[], options={}, Settings=dict)
    run = SimpleNamespace(
        starting_step=starting_step,
        log=lambda values, step, commit: fake.steps.append(step),
        summary={},
        finish=lambda exit_code: fake.steps.append(f"exit {exit_code}"),
    )

    def init(**options: Any) -> SimpleNamespace:
        fake.options = options | {
            "error_reporting": os.environ["WANDB_ERROR_REPORTING"]
        }
        return run

    fake.run, fake.init = run, init
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "")
    monkeypatch.delenv("WANDB_ERROR_REPORTING")
    monkeypatch.setitem(sys.modules, "wandb", fake)
    return fake


def resumed_at_5(folder: Path) -> RunInfo:
    return RunInfo(
        run="r",
        node="n",
        project="p",
        folder=folder,
        config={},
        resumed_from=5,
        history=lambda after: map(example_record, range(max(after, 0) + 1, 6)),
    )


@pytest.mark.parametrize(
    ("has_up_to", "sent"),
    [(8, [9, 10]), (3, [4, 5, 6, 7, 8, 9, 10])],
    ids=["ahead", "behind"],
)
def test_online_each_step_is_sent_once(
    has_up_to: int, sent: list[int], no_key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps that W&B has are not sent again, missing ones are filled in."""
    monkeypatch.setattr(tracker, "reachable", lambda: True)
    fake = fake_wandb(monkeypatch, starting_step=has_up_to + 1)
    monkeypatch.setenv("WANDB_API_KEY", "k" * 40)
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "true")
    hook = tracker.Tracker()
    hook.on_start(resumed_at_5(no_key))
    for step in range(6, 11):
        hook.on_record(example_record(step))
    hook.on_end({"status": "failed"}, "stopped")
    hook.close()

    assert [*sent, "exit 1"] == fake.steps
    assert ({"status": "failed"}, "online", "true") == (
        fake.run.summary,
        fake.options["mode"],
        fake.options["error_reporting"],
    )


def test_offline_nothing_reports_home(
    no_key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W&B's own error reports, which need no key, are off before it is imported."""
    fake = fake_wandb(monkeypatch, starting_step=0)
    tracker.Tracker().on_start(resumed_at_5(no_key))

    assert ("offline", "false") == (
        fake.options["mode"],
        fake.options["error_reporting"],
    )
