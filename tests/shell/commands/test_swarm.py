"""``speedtronic swarm``, as far as it is refused before any node starts."""

from pathlib import Path

import pytest

from speedtronic.shell.cli import main


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--nodes", "0"], "--nodes: expected at least 1, found 0"),
        (["--nodes", "two"], "--nodes"),
        ([], "--nodes"),
        (["--nodes", "2", "--resume", "--overwrite"], "expected one of them"),
        (["--nodes", "2", "--lane", "here"], "here"),
        (["--nodes", "2", "--set", "optimizer.lr=-1"], "optimizer.lr"),
    ],
    ids=["none", "word", "absent", "both", "lane", "config"],
)
def test_what_the_user_can_mend_is_code_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    told: str,
) -> None:
    """One line, and nothing is made."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yaml").write_text("run: {name: r}\ndata: {num_tokens: 5000}\n")
    assert 2 == main(["swarm", "--config", "c.yaml", *arguments])
    assert told in capsys.readouterr().err
    assert not (tmp_path / "runs" / "r").exists()
