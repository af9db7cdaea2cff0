"""Hooks that work, fail, hang and do not exist."""

import logging
import subprocess
import sys
import textwrap
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from speedtronic.errors import ConfigError
from speedtronic.pure.config.base import Secret
from speedtronic.pure.metrics import StepRecord
from speedtronic.shell.hooks import Hook, RunInfo, build_hooks
from speedtronic.testing.records import example_record


class Recorder:
    """Notes every call and the thread it came on; fails where it is told to."""

    def __init__(self, fails_in: str = "") -> None:
        self.calls: list[Any] = []
        self.threads: set[int] = set()
        self._fails_in = fails_in

    def on_start(self, info: RunInfo) -> None:
        self._note("on_start", info.run)

    def on_record(self, record: StepRecord) -> None:
        self._note("on_record", record.step)

    def on_end(self, summary: Mapping[str, Any], error: str | None) -> None:
        self._note("on_end", (summary, error))

    def close(self) -> None:
        self._note("close", None)

    def _note(self, call: str, what: Any) -> None:
        self.calls.append((call, what))
        self.threads.add(threading.get_ident())
        if call == self._fails_in:
            raise RuntimeError(f"no {call}\ntoday, hf_{'x' * 30}")


class Blocked(Recorder):
    """Hangs in its first record until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Event()
        self.release = threading.Event()

    def on_record(self, record: StepRecord) -> None:
        super().on_record(record)
        self.entered.set()
        self.release.wait()


def info(folder: Path, **changes: Any) -> RunInfo:
    fields = {"run": "r", "node": "n", "project": "p", "folder": folder, "config": {}}
    return RunInfo(**(fields | changes))


def test_calls_come_in_order_on_one_thread(tmp_path: Path) -> None:
    """Start, records, end, close, and never on the training thread."""
    hook = Recorder()
    hooks = build_hooks([lambda: hook], info(tmp_path))
    for step in (1, 2):
        hooks.record(example_record(step))
    hooks.close({"status": "completed"})
    hooks.close({"status": "twice"})

    assert [
        ("on_start", "r"),
        ("on_record", 1),
        ("on_record", 2),
        ("on_end", ({"status": "completed"}, None)),
        ("close", None),
    ] == hook.calls
    assert 1 == len(hook.threads) and threading.get_ident() not in hook.threads


def test_a_failed_run_closes_its_hooks(tmp_path: Path) -> None:
    """The error reaches the hook, and it is closed."""
    hook = Recorder()
    build_hooks([lambda: hook], info(tmp_path)).close({}, "loss is nan at step 3")

    assert [("on_end", ({}, "loss is nan at step 3")), ("close", None)] == hook.calls[
        1:
    ]


@pytest.mark.parametrize("place", ["on_start", "on_record", "on_end", "close"])
def test_a_failing_hook_warns_once_and_is_closed(
    place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Training and the other hooks go on; tokens stay out of the message."""
    bad, good = Recorder(place), Recorder()
    hooks = build_hooks([lambda: bad, lambda: good], info(tmp_path))
    for step in (1, 2, 3):
        hooks.record(example_record(step))
    hooks.close({})

    (message,) = [
        r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING
    ]
    assert f"failed and is dropped: RuntimeError: no {place} today, hf_***" in message
    assert f"{__file__}, line " in message
    assert [("close", None)] == [call for call in bad.calls if call[0] == "close"]
    assert [1, 2, 3] == [what for call, what in good.calls if call == "on_record"]


@pytest.mark.parametrize(
    "error", [ImportError("no cuda"), SystemExit(1), KeyboardInterrupt()], ids=repr
)
def test_a_factory_that_fails_warns_once(
    error: BaseException, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Even a library that tries to exit the program."""

    def factory() -> Hook:
        raise error

    hooks = build_hooks([factory], info(tmp_path))
    hooks.record(example_record(1))
    hooks.close({})

    assert 1 == len(caplog.messages) and type(error).__name__ in caplog.text


def test_a_hanging_hook_holds_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Records beyond the queue are dropped and counted; closing gives up in time."""
    hook = Blocked()
    hooks = build_hooks([lambda: hook], info(tmp_path), capacity=3)
    hooks.record(example_record(1))
    hook.entered.wait()
    for step in range(2, 10):
        hooks.record(example_record(step))
    hooks.close({}, timeout_s=0.01)
    hook.release.set()

    name = f"hook {test_a_hanging_hook_holds_nobody.__name__}.<locals>.<lambda>"
    assert [
        f"{name} is too slow, records are dropped",
        f"{name} did not finish in 0.01 s; it is left behind with 3 records",
        f"{name}: 5 records dropped",
    ] == caplog.messages


def test_a_slow_hook_gets_what_fitted_and_the_end(tmp_path: Path) -> None:
    """The end is never dropped."""
    hook = Blocked()
    hooks = build_hooks([lambda: hook], info(tmp_path), capacity=2)
    hooks.record(example_record(1))
    hook.entered.wait()
    for step in (2, 3, 4):
        hooks.record(example_record(step))
    hook.release.set()
    hooks.close({})

    assert [1, 2, 3] == [what for call, what in hook.calls if call == "on_record"]
    assert ["on_end", "close"] == [call for call, _ in hook.calls[-2:]]


HANGING = """
    import threading
    from pathlib import Path
    from speedtronic.shell.hooks import RunInfo, build_hooks

    class Hanging:
        def on_start(self, info):
            threading.Event().wait()

    info = RunInfo(run="r", node="n", project="p", folder=Path(), config={})
    build_hooks([Hanging], info).close({}, timeout_s=0.01)
    print("done")
"""


def test_a_hanging_hook_does_not_keep_the_process() -> None:
    """The interpreter exits although the thread never does."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(HANGING)],
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (0, "done\n") == (done.returncode, done.stdout)


def test_secrets_never_reach_a_hook(tmp_path: Path) -> None:
    """Declared secrets and tokens typed elsewhere are stars; the rest is plain."""
    token = "hf_" + "a" * 30
    config = {
        "distributed": {"token": Secret("s3cret"), "betas": (0.9, 0.95)},
        "kwargs": {"key": token},
    }
    seen = info(tmp_path, config=config).config

    assert {
        "distributed": {"token": "***", "betas": [0.9, 0.95]},
        "kwargs": {"key": "hf_***"},
    } == seen


def test_all_unusable_names_are_told_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line each: the nearest name, and the extra to install."""
    monkeypatch.setitem(sys.modules, "trackio", None)
    before = threading.active_count()
    with pytest.raises(ConfigError) as caught:
        build_hooks(["tensorbord", Recorder, "trackio"], info(tmp_path))

    assert [
        "logging.hooks: expected one of tensorboard, wandb, trackio or "
        "package.module:factory, found 'tensorbord', did you mean 'tensorboard'?",
        "logging.hooks: trackio needs a package that is not installed; "
        "pip install speedtronic[trackio]",
    ] == caught.value.problems
    assert before == threading.active_count()


def test_a_name_from_the_config_is_resolved_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``package.module:factory`` is found on the path; naming it twice is one hook."""
    (tmp_path / "my_hooks.py").write_text(
        "made = []\n"
        "class Mine:\n"
        "    def __init__(self): made.append(self); self.steps = []\n"
        "    def on_start(self, info): pass\n"
        "    def on_record(self, record): self.steps.append(record.step)\n"
        "    def on_end(self, summary, error): pass\n"
        "    def close(self): pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    hooks = build_hooks(["my_hooks:Mine", "my_hooks:Mine"], info(tmp_path))
    hooks.record(example_record(1))
    hooks.close({})

    assert [[1]] == [hook.steps for hook in sys.modules["my_hooks"].made]
    sys.modules.pop("my_hooks")


@pytest.mark.parametrize("name", ["no_such_module_here:Hook", "json:NoSuchHook"])
def test_a_factory_that_does_not_exist_is_a_config_error(
    name: str, tmp_path: Path
) -> None:
    """It is found before training starts."""
    with pytest.raises(ConfigError, match="logging.hooks"):
        build_hooks([name], info(tmp_path))


def test_no_hooks_is_fine(tmp_path: Path) -> None:
    """An empty list costs nothing."""
    hooks = build_hooks([], info(tmp_path))
    hooks.record(example_record(1))
    hooks.close({})
