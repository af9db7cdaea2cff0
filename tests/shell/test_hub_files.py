"""What lies beside weights; that other tools can read it is tested with the export."""

import json
from pathlib import Path
from typing import Any

import pytest

from speedtronic.pure.config import Config, Data, Model
from speedtronic.shell.data.tokenizers import build_tokenizer
from speedtronic.shell.hub_files import hub_files


def files(model: Model, **data: Any) -> tuple[dict[str, bytes], list[str]]:
    """Those of a model on this data."""
    config = Config(model=model, data=Data(**data))
    return hub_files(config, build_tokenizer(config.data), {"own": 1})


def test_the_reference_is_a_llama_and_any_other_its_own() -> None:
    """By its config; the mark is named where there is one."""
    found, _ = files(Model(), end_of_document="256")
    assert "llama" == json.loads(found["config.json"])["model_type"]
    assert 256 == json.loads(found["config.json"])["eos_token_id"]
    assert 256 == json.loads(found["generation_config.json"])["eos_token_id"]
    found, _ = files(Model(name="tiny:build"))
    assert {"own": 1} == json.loads(found["config.json"])


@pytest.mark.parametrize("beside", [[], ["special_tokens_map.json"]])
def test_a_tokenizer_goes_out_as_it_is(tmp_path: Path, beside: list[str]) -> None:
    """Byte for byte, with what lies beside it."""
    from tokenizers import Tokenizer, models

    path = tmp_path / "tokenizer.json"
    Tokenizer(models.WordLevel({"a": 0}, unk_token="a")).save(str(path))
    for name in beside:
        (tmp_path / name).write_text("{}")
    found, left_out = files(Model(), tokenizer=str(path))

    assert path.read_bytes() == found["tokenizer.json"]
    assert set(beside) <= set(found)
    assert [] == left_out


def test_a_tokenizer_of_a_factory_has_no_file() -> None:
    """And that is said."""
    _, left_out = files(Model(), tokenizer="tests.shell.data.factories:Words")

    assert ["no tokenizer.json"] == [line.partition(":")[0] for line in left_out]
