"""What a config names as data."""

from pathlib import Path

import pytest

from speedtronic.errors import ConfigError, DataError
from speedtronic.pure.config import Config, Data, Model, Source
from speedtronic.shell.data.recipe import (
    Ingredient,
    check_fields,
    id_limit,
    ingredients,
    validation_ingredient,
)
from speedtronic.shell.data.source import TextSource
from speedtronic.shell.data.token_files import TokenFiles
from speedtronic.shell.data.tokenizers import ByteTokenizer

HERE = "tests.shell.data.factories"


def named(**fields: object) -> list[Ingredient]:
    """The ingredients of a data section."""
    return ingredients(Data(**fields), ByteTokenizer())  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A text, a token file and JSON lines."""
    (tmp_path / "a.txt").write_bytes(b"text")
    (tmp_path / "a.bin").write_bytes(b"\x01\x00")
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "x"}\n')
    return tmp_path


def test_nothing_named_is_the_synthetic_stream() -> None:
    """An empty list."""
    assert [] == named()


def test_kinds_of_sources(folder: Path) -> None:
    """Text and tokens are told by their endings, a format overrides them."""
    (text,) = named(text_path=str(folder / "a.txt"))
    (tokens,) = named(text_path=str(folder / "a.bin"))
    (raw,) = named(text_path=str(folder / "a.bin"), format="text")
    (store,) = named(store=str(folder))

    assert isinstance(text.source, TextSource)
    assert isinstance(tokens.source, TokenFiles)
    assert isinstance(raw.source, TextSource)
    assert (None, str(folder)) == (store.source, store.store)


def test_samples_and_texts_of_datasets() -> None:
    """A dataset of texts is a source, any other gives samples."""
    (texts,) = named(dataset=f"{HERE}:texts")
    (samples,) = named(dataset=f"{HERE}:squares_and_more")

    assert isinstance(texts.source, TextSource)
    assert (10, 3) == (
        len(samples.samples),
        len(samples.validation.samples if samples.validation else ()),
    )


def test_weights_of_a_mixture(folder: Path) -> None:
    """Paths and datasets of text, each with its weight."""
    parts = (
        Source(path=str(folder / "a.txt"), weight=2.0),
        Source(dataset=f"{HERE}:texts"),
    )

    assert [2.0, 1.0] == [i.weight for i in named(sources=parts)]


@pytest.mark.parametrize(
    "fields",
    [{}, {"text_path": "a.txt"}, {"text_path": "a.bin"}, {"dataset": f"{HERE}:texts"}],
)
def test_prompts_where_nothing_has_fields(
    folder: Path, fields: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would be learned like any other text."""
    monkeypatch.chdir(folder)
    with pytest.raises(ConfigError, match="data.prompt_field: .* found none in "):
        named(prompt_field="q", completion_field="a", **fields)


def test_prompts_beside_plain_text(folder: Path) -> None:
    """A mixture may have both, and so may a folder; only prompts are masked."""
    names = ("a.txt", "a.jsonl")
    plain, prompts = named(
        sources=tuple(Source(path=str(folder / name)) for name in names),
        prompt_field="q",
        completion_field="a",
    )

    assert plain.source is not None and prompts.source is not None
    assert (False, True) == (plain.source.masked, prompts.source.masked)


def test_samples_in_a_mixture() -> None:
    """They cannot be mixed, and the source is numbered."""
    with pytest.raises(DataError, match=r"data.sources\[0\]: .*squares holds samples"):
        named(sources=(Source(dataset=f"{HERE}:squares"),))


def test_a_factory_is_no_path(folder: Path) -> None:
    """Where it should be named is told."""
    with pytest.raises(ConfigError, match="name it in data.dataset"):
        named(text_path=str(folder / "a.txt"), format="factory")


def test_a_validation_path_has_the_format_of_the_text(folder: Path) -> None:
    """Unless the training data is no text file."""
    path = str(folder / "a.bin")
    for fields, kind in (
        ({"text_path": "x", "format": "text"}, TextSource),
        ({"dataset": "x", "format": "dataset"}, TokenFiles),
    ):
        data = Data(validation_path=path, **fields)
        found = validation_ingredient(data, ByteTokenizer())

        assert found is not None and isinstance(found.source, kind)


def test_limits_of_ids() -> None:
    """The lower of both for the reference model; its own for any other."""

    def limit(name: str, vocab_size: int | None) -> tuple[str, int] | None:
        model = Model(name=name, vocab_size=300)
        return id_limit(Config(model=model, data=Data(vocab_size=vocab_size)))

    assert ("model.vocab_size", 300) == limit("gpt", None)
    assert ("data.vocab_size", 200) == limit("gpt", 200)
    assert ("model.vocab_size", 300) == limit("gpt", 400)
    assert ("data.vocab_size", 400) == limit("m:f", 400)
    assert limit("m:f", None) is None


def test_contradictions_about_data() -> None:
    """All of them at once, and none about anything else."""
    check_fields(Config(data=Data(block_size=16), model=Model(n_head=7)))
    data = Data(block_size=500, text_path="a", dataset="b", completion_field="c")
    with pytest.raises(ConfigError) as caught:
        check_fields(Config(data=data, model=Model(n_head=7)))

    assert ["data.block_size", "data.prompt_field", "data.dataset"] == [
        line.split(":")[0] for line in caught.value.problems
    ]
