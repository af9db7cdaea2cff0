"""Configs and data for the tests of this folder."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from speedtronic.pure import config as settings
from speedtronic.shell.data import Data, open_data

Opened = Callable[..., Data]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """Open data with these fields of the data section; the cache is temporary."""

    def open_with(
        model: settings.Model | None = None, shard: Any = (), **fields: Any
    ) -> Data:
        fields = {"block_size": 4, "shuffle": True, **fields}
        if isinstance(fields.get("text_path"), Path):
            fields["text_path"] = str(fields["text_path"])
        config = settings.Config(
            model=model or settings.Model(), data=settings.Data(**fields)
        )
        return open_data(config, directory=tmp_path / "cache", **dict(shard))

    return open_with


@pytest.fixture
def text(tmp_path: Path) -> Callable[..., Path]:
    """Write a file of text."""

    def write(content: bytes | str, name: str = "text.txt") -> Path:
        data = content.encode() if isinstance(content, str) else content
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write
