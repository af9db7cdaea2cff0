"""`speedtronic testing hub`, as a process of its own."""

import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO
from urllib.request import urlopen

import pytest

from speedtronic.errors import ConfigError
from speedtronic.shell.cli import main
from speedtronic.shell.commands.testing_hub import bounds

COMMAND = [sys.executable, "-m", "speedtronic", "testing", "hub", "--port", "0"]


def started(*options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*COMMAND, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def endpoint(told: IO[str]) -> str:
    """Read on until it has said what to do."""
    text = ""
    while "Ctrl-C" not in text:
        line = told.readline()
        assert line, text
        text += line
    found = re.search(r"HF_ENDPOINT=(\S+) HF_TOKEN=emulator-write", text)
    assert found, text
    return found[1]


def test_it_serves_until_ctrl_c(tmp_path: Path) -> None:
    """Says what to export, shows requests, ends with 130 and no traceback."""
    with started("--verbose", "--folder", str(tmp_path / "hub")) as process:
        assert process.stdout and process.stderr
        address = endpoint(process.stdout)
        with urlopen(f"{address}/api/agent-harnesses") as reply:
            assert 200 == reply.status
        process.send_signal(signal.SIGINT)
        told, wrong = process.communicate()

    assert (130, "") == (process.returncode, wrong)
    assert "0 - GET /api/agent-harnesses 200" in told
    assert told.endswith("stopped after 1 requests and 0 commits\n")


def test_its_json_is_alone_on_stdout() -> None:
    """What else it says goes to stderr; SIGTERM ends it too."""
    with started("--json") as process:
        assert process.stdout and process.stderr
        address = endpoint(process.stderr)
        process.send_signal(signal.SIGTERM)
        told, _ = process.communicate()

    assert 143 == process.returncode
    assert {
        "ok": False,
        "exit_code": 143,
        "endpoint": address,
        "requests": 0,
        "commits": 0,
    } == json.loads(told)


def test_a_port_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    """One line that says what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code = main(["testing", "hub", "--port", port])
    wrong = capsys.readouterr().err

    assert 2 == code
    assert f"error: --port: expected a free port, found {port} in use" in wrong


@pytest.mark.parametrize("text", ["1", "3,1", "-1,2", "a,b", "1,2,3", "0,inf", "nan,1"])
def test_a_latency_has_two_bounds(text: str) -> None:
    """The lower one first."""
    with pytest.raises(ConfigError, match="--latency: expected two numbers"):
        bounds(text)


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("--faults", "2", "--faults: expected 0 to 1, found 2.0"),
        ("--folder", "/proc/none", "error: /proc/none"),
    ],
)
def test_an_option_that_cannot_be_used(
    option: str, value: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Is told in one line."""
    code = main(["testing", "hub", "--port", "0", option, value])

    assert code in (1, 2)
    assert expected in capsys.readouterr().err
