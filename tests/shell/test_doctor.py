"""The report about a machine."""

import importlib.metadata
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
import torch

from speedtronic.__main__ import main
from speedtronic.pure.config import Config, Distributed, Run, ShapeValidation
from speedtronic.shell import doctor
from speedtronic.shell.config import load_config
from speedtronic.shell.doctor import Finding


def by_name(findings: Iterator[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


def test_this_machine_can_train() -> None:
    """The machine that runs the tests has all that is needed."""
    told = [*doctor.versions(), *doctor.devices(), *doctor.precisions()]

    assert [] == [finding for finding in told if finding.state == "bad"]
    assert "fp32" in by_name(doctor.precisions())["precision"].told


def test_the_peak_is_told_in_what_auto_means() -> None:
    """Some number of operations per second, measured on the spot."""
    told = by_name(doctor.peak())["peak"].told

    assert re.search(r"\d GFLOP/s in (fp32|bf16|fp16) products now$", told)


def test_a_missing_package_is_bad_and_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The remedy installs what is missing."""
    version = importlib.metadata.version

    def without(package: str) -> str:
        if package == "safetensors":
            raise importlib.metadata.PackageNotFoundError(package)
        return version(package)

    monkeypatch.setattr(importlib.metadata, "version", without)
    finding = by_name(doctor.versions())["packages"]

    assert ("bad", "pip install safetensors") == (finding.state, finding.remedy)


def test_an_old_torch_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told before it fails somewhere inside."""
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "2.9.1+cpu")

    assert "bad" == by_name(doctor.versions())["torch"].state


def test_a_torch_that_cannot_be_imported_is_bad(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The other findings are told all the same."""
    monkeypatch.setitem(sys.modules, "torch", None)
    findings = doctor.examine(str(tmp_path))

    assert "bad" == {f.name: f for f in findings}["torch"].state
    assert {"versions", "folder", "extras"} <= {f.name for f in findings}


def test_a_broken_compiler_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training works without one."""

    def broken(*_: object, **__: object) -> object:
        raise RuntimeError("no C++ compiler\nlong trace")

    monkeypatch.setattr(torch, "compile", broken)
    (finding,) = doctor.compiler()

    assert "note" == finding.state
    assert finding.told.endswith("RuntimeError: no C++ compiler")
    assert "g++" in finding.remedy


def test_too_many_threads_are_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """The remedy is the field that mends it."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 10_000)
    (finding,) = doctor.threads()

    assert "note" == finding.state
    assert finding.remedy.startswith("set run.threads: ")


def test_a_folder_that_cannot_be_written_is_bad(tmp_path: Path) -> None:
    """The nearest existing folder above decides."""
    (tmp_path / "file").touch()
    bad = by_name(doctor.folder(tmp_path / "file" / "runs"))["folder"]
    good = by_name(doctor.folder(tmp_path / "new" / "runs"))["folder"]

    assert ("bad", True) == (bad.state, good.state != "bad")
    assert [tmp_path / "file"] == list(tmp_path.iterdir())


def test_a_full_disk_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first checkpoint fails."""
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)

    assert "note" == by_name(doctor.folder(tmp_path))["folder"].state


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the finding that takes seconds."""
    monkeypatch.setattr(doctor, "compiler", lambda: iter(()))


def test_the_command_prints_every_finding(
    quick: None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """As lines, and as one JSON object."""
    assert 0 == main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("ok    versions: Speedtronic ") for line in lines)

    assert 0 == main(["doctor", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is True and told["problems"] == []
    assert {"versions", "devices", "threads"} <= {f["name"] for f in told["findings"]}


def test_the_command_checks_a_config_too(
    quick: None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The machine is still told about; the code says that the input is wrong."""
    path = tmp_path / "c.yaml"
    path.write_text("seed: x")

    assert 2 == main(["doctor", "--config", str(path), "--json"])
    shown = capsys.readouterr()
    told = json.loads(shown.out)
    assert ["run.seed: expected an integer, found the text 'x'"] == told["problems"]
    assert told["findings"]


TINY = """
run: {device: cpu, output_dir: %s}
model: {n_layer: 1, d_model: 16, n_head: 2, max_seq_len: 8, vocab_size: 32}
data: {num_tokens: 500}
optimizer: muon
"""


def test_the_command_shows_who_has_which_parameter(
    quick: None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Below the findings, or as part of the JSON object."""
    path = tmp_path / "c.yaml"
    path.write_text(TINY % tmp_path)
    command = ["doctor", "--config", str(path), "--optimizer"]
    assert 0 == main(command)
    lines = capsys.readouterr().out.splitlines()
    norm = "transformer.ln_f.weight 16 norm adamw 1 0"
    assert norm in [" ".join(line.split()) for line in lines]

    assert 0 == main([*command, "--json"])
    told = json.loads(capsys.readouterr().out)
    assert "muon" in {one["optimizer"] for one in told["optimizer"]["trained"]}


def test_shapes_are_told_with_their_remedy(tmp_path: Path) -> None:
    """Only where the device is looked at, and the profile always."""
    path = tmp_path / "c.yaml"
    path.write_text(TINY % tmp_path)
    config = load_config(path)
    section = ShapeValidation(warn_on_cpu=True, alignment=32)
    profile, *none = doctor.shapes(config)
    _, width, *_ = doctor.shapes(attrs.evolve(config, shape_validation=section))

    assert [] == none
    assert "width 16, head width 8, " in profile.told
    assert ("note", "width 16 is no multiple of 32") == (width.state, width.told)
    assert "set model.d_model: 64" == width.remedy


def test_shapes_for_a_device_that_is_not_here(tmp_path: Path) -> None:
    """The check of the config says so; the profile needs no device."""
    config = Config(run=Run(device="cuda:99"))
    (profile,) = doctor.shapes(config)

    assert "ok" == profile.state


def test_commits_to_the_hub_are_a_finding() -> None:
    """Ok where they suffice, else a note with what to do; none without the Hub."""
    section = Distributed(enabled=True, role="worker", lane="hub:me/run")
    config = Config(distributed=section)
    (good,), (bad,), (unknown,) = (
        list(doctor.commits(config, step_s)) for step_s in (1.0, 0.001, None)
    )

    assert ["ok", "note", "note"] == [good.state, bad.state, unknown.state]
    assert "raise distributed.inner_steps" in bad.told
    assert unknown.remedy.startswith("speedtronic plan measures it")
    assert [] == list(doctor.commits(Config(), 1.0))


def test_the_table_needs_a_config(
    quick: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is that of a config's model."""
    assert 2 == main(["doctor", "--optimizer"])
    assert "error: --optimizer: expected --config PATH" in capsys.readouterr().err


def test_a_table_that_cannot_be_made_is_a_problem(
    quick: None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Told once, though the check of the config meets it, too."""
    path = tmp_path / "c.yaml"
    path.write_text(f"{TINY % tmp_path}".replace("muon", "{no_decay: [x]}"))

    assert 2 == main(["doctor", "--config", str(path), "--optimizer"])
    assert 1 == capsys.readouterr().err.count("pattern 'x' matches no trainable")


def test_a_machine_to_be_mended_is_code_1(
    quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script can tell."""
    bad = Finding(name="torch", state="bad", told="too old")
    monkeypatch.setattr(doctor, "versions", lambda: iter([bad]))

    assert 1 == main(["doctor"])
