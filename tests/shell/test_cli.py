"""The command line as a user and a script see it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from speedtronic import __version__
from speedtronic.__main__ import main
from speedtronic.errors import CheckpointError, DataError, LaneError
from speedtronic.shell.commands import COMMANDS, validate

TOKEN = "hf_" + "aB3dE5gH7jK9mN1pQ3sT5vX7"
GOOD = "max_steps: 5\noptimizer: muon\n"


def spawn(*arguments: str, **settings: Any) -> "subprocess.CompletedProcess[str]":
    """Run the command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "speedtronic", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        **settings,
    )


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "c.yaml"
    path.write_text(GOOD)
    return str(path)


def test_help_lists_every_command_without_torch() -> None:
    """Nothing heavy is imported before a command needs it."""
    code = (
        "import sys; from speedtronic.__main__ import main\n"
        "code = main(['--help'])\n"
        "heavy = {'torch', 'numpy', 'yaml', 'rich', 'attrs'} & set(sys.modules)\n"
        "sys.exit(repr((code, heavy)) if code or heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert (0, "") == (done.returncode, done.stderr)
    assert [] == [name for name in COMMANDS if f"  {name} " not in done.stdout]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_needs_no_torch(command: str) -> None:
    """Its options are listed at once."""
    code = (
        "import sys; from speedtronic.__main__ import main\n"
        f"code = main([*{command.split()!r}, '--help'])\n"
        "sys.exit(code or 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert (0, "") == (done.returncode, done.stderr)
    assert f"usage: speedtronic {command}" in done.stdout


def test_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """One line, the package's own."""
    assert 0 == main(["--version"])
    assert f"speedtronic {__version__}\n" == capsys.readouterr().out


def test_syntax_only_reads_without_torch(config: str) -> None:
    """A config can be checked where torch is not installed or slow to load."""
    code = (
        "import sys; from speedtronic.__main__ import main\n"
        f"code = main(['validate', '--syntax-only', '--config', {config!r}])\n"
        "sys.exit(code or 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert (0, "") == (done.returncode, done.stderr)
    assert "  max_steps: 5\n" in done.stdout


@pytest.mark.parametrize("kind", ["yaml", "json"])
def test_validate_prints_a_config_that_validates(
    config: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is printed is the full form of the same config."""
    shown = ["validate", "--syntax-only", "--format", kind, "--config"]
    assert 0 == main([*shown, config])
    first = capsys.readouterr().out
    again = tmp_path / f"again.{kind}"
    again.write_text(first)

    assert 0 == main([*shown, str(again)])
    assert first == capsys.readouterr().out


@pytest.mark.parametrize("format_flag", [[], ["--format", "json"], ["--json"]])
def test_a_token_is_never_printed(
    tmp_path: Path, format_flag: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither from the file nor from the command line, right or wrong."""
    path = tmp_path / "c.yaml"
    path.write_text(f"hub: {{token: {TOKEN}}}")
    command = ["validate", "--syntax-only", "--config", str(path), *format_flag]
    assert 0 == main(command)
    for wrong in (["--set", f"run.nam={TOKEN}"], ["--set", TOKEN], [TOKEN]):
        assert 2 == main([*command, *wrong])

    shown = capsys.readouterr()
    assert "***" in shown.out
    assert TOKEN not in shown.out + shown.err


def test_mistakes_are_lines_on_stderr_and_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line per mistake, no traceback, nothing on stdout."""
    path = tmp_path / "c.yaml"
    path.write_text("lr: 1\nrun: {seed: x}\n")

    assert 2 == main(["validate", "--config", str(path)])
    shown = capsys.readouterr()
    assert "" == shown.out
    assert [
        "error: run.seed: expected an integer, found the text 'x'",
        "error: lr: unknown field; did you mean optimizer.lr?",
    ] == shown.err.splitlines()


def test_mistakes_are_json_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --json stdout holds exactly one object, whatever happens."""
    assert 2 == main(["validate", "--json", "--config", str(tmp_path / "none.yaml")])
    told = json.loads(capsys.readouterr().out)

    assert {
        "ok": False,
        "exit_code": 2,
        "problems": [f"{tmp_path / 'none.yaml'}: no such file"],
    } == told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "expected a command, found nothing"),
        (["--quiet"], "expected a command, found --quiet"),
        (["trian"], "unknown command trian; did you mean train?"),
        (["data"], "unknown command data; did you mean data stats?"),
        (["data", "stat"], "unknown command data; did you mean data stats?"),
        (["frobnicate"], "unknown command frobnicate"),
        (["validate"], "the following arguments are required: --config"),
        (["train", "--confg", "x"], "required: --config"),
        (
            ["validate", "--config", "c", "--sintax-only"],
            "unknown argument --sintax-only; did you mean --syntax-only?",
        ),
    ],
)
def test_a_wrong_command_line_shows_the_usage(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, the usage, and what was wrong."""
    assert 2 == main(arguments)
    shown = capsys.readouterr().err.splitlines()

    assert shown[0].startswith("usage: speedtronic")
    assert shown[-1].startswith("error: ") and told in shown[-1]


def test_json_flag_alone_does_not_hide_a_usage_mistake(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A script reads the mistake where it reads results."""
    assert 2 == main(["validate", "--json"])
    assert False is json.loads(capsys.readouterr().out)["ok"]


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (DataError(["a: too short", "b: missing"]), 2, ["a: too short", "b: missing"]),
        (CheckpointError("step 5 is damaged"), 1, ["step 5 is damaged"]),
        (LaneError("no answer\nfrom the hub"), 1, ["no answer from the hub"]),
        (OSError(28, "No space left on device", "/x"), 1, ["/x: No space left on dev"]),
        (KeyboardInterrupt(), 130, ["interrupted"]),
        (ZeroDivisionError("division by zero"), 1, ["unexpected ZeroDivisionError: d"]),
        (SystemExit(0), 1, ["unexpected SystemExit: 0"]),
    ],
)
def test_every_outcome_has_a_code_and_lines(
    config: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    error: BaseException,
    code: int,
    told: list[str],
) -> None:
    """The error tree becomes exit codes; nobody sees a traceback."""

    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr(validate, "run", fail)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)

    assert code == main(["validate", "--config", config])
    shown = capsys.readouterr().err.splitlines()
    assert len(told) == len(shown)
    assert all(
        line.startswith(f"error: {expected}")
        for line, expected in zip(shown, told, strict=True)
    )


def test_an_unexpected_error_keeps_its_traceback(
    config: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """In a file that the line names, or on stderr with --debug."""

    def fail(_: object) -> int:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(validate, "run", fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    assert 1 == main(["validate", "--config", config])
    line = capsys.readouterr().err
    kept = Path(line.partition("the traceback is in ")[2].strip())
    assert kept.parent == tmp_path
    assert "Traceback (most recent call last)" in kept.read_text()

    assert 1 == main(["validate", "--config", config, "--debug"])
    assert "Traceback (most recent call last)" in capsys.readouterr().err
    assert [kept] == list(tmp_path.glob("speedtronic-*"))


def test_debug_shows_the_traceback_of_a_users_mistake(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """For those who want to know where it was noticed."""
    assert 2 == main(["validate", "--config", "none.yaml", "--debug"])
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_a_reader_that_leaves_causes_no_traceback(config: str) -> None:
    """``validate | head -1`` ends quietly."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "speedtronic", "--help"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)

    assert (1, "") == (done.returncode, done.stderr)


def test_a_terminal_without_unicode_shows_escapes(tmp_path: Path) -> None:
    """Text that cannot be shown is escaped, not fatal."""
    path = tmp_path / "c.yaml"
    path.write_text("name: \u00fc\U0001f600\n", encoding="utf-8")
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = spawn("validate", "--config", str(path), env=ascii_only)
    wrong = spawn("validate", "--config", "\u00fc.yaml", env=ascii_only)

    assert "Traceback" not in done.stderr + wrong.stderr
    assert 2 == wrong.returncode


def test_the_module_is_the_console_script(config: str) -> None:
    """``python -m speedtronic`` returns the exit code to the shell."""
    assert 2 == spawn("validate", "--config", "none.yaml").returncode
    assert 0 == spawn("validate", "--syntax-only", "--config", config).returncode


def test_init_writes_a_config_that_is_not_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second ``init`` needs --force."""
    path = tmp_path / "my.yaml"
    assert 0 == main(["init", "--path", str(path)])
    assert 0 == main(["validate", "--syntax-only", "--config", str(path)])
    path.write_text("mine")
    assert 2 == main(["init", "--path", str(path)])
    assert "mine" == path.read_text()
    assert "is there already; --force replaces it" in capsys.readouterr().err
    assert 0 == main(["init", "--path", str(path), "--force", "--json"])
    assert {"ok": True, "path": str(path)} == json.loads(capsys.readouterr().out)


def test_init_into_a_missing_folder_is_a_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is told in one line."""
    assert 2 == main(["init", "--path", str(tmp_path / "no" / "c.yaml")])
    assert "No such file or directory" in capsys.readouterr().err


def test_init_writes_no_yaml_into_a_json_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The next command would read it as JSON and refuse it."""
    assert 2 == main(["init", "--path", str(tmp_path / "c.json")])
    assert "c.json: expected a name for YAML" in capsys.readouterr().err
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(("code", "arguments"), [(0, ["--version"]), (2, ["nope"])])
def test_closed_streams_do_not_change_the_outcome(
    code: int, arguments: list[str], tmp_path: Path
) -> None:
    """A daemon may have neither output nor errors to write to."""
    command = [sys.executable, "-m", "speedtronic", *arguments]
    shell = ["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *command]

    assert code == subprocess.run(shell, cwd=tmp_path).returncode
