"""From a name to a module."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from speedtronic.errors import ConfigError, ModelError
from speedtronic.pure.config import Config, Model, Run
from speedtronic.pure.transformer import Transformer
from speedtronic.shell import models
from speedtronic.shell.models import build_model, model_from_config, register_model

SMALL = {"vocab_size": 9, "max_seq_len": 8, "n_layer": 1, "n_head": 2, "d_model": 8}


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that a test registers are gone after it."""
    monkeypatch.setattr(models, "_REGISTRY", dict(models._REGISTRY))


@pytest.fixture
def own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., str]]:
    """Writes a module with a factory and gives its spec."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(body: str) -> str:
        (tmp_path / "own_net.py").write_text(
            f"import torch\nfrom torch import nn\n{body}\n"
        )
        return "own_net:build"

    yield write
    sys.modules.pop("own_net", None)


def config(name: str, seed: int = 3, **fields: Any) -> Config:
    return Config(model=Model(name=name, **fields), run=Run(seed=seed))


def problems(error: type[Exception], call: Callable[[], object]) -> list[str]:
    with pytest.raises(error) as caught:
        call()
    return caught.value.problems  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("name", ["reference_transformer", "gpt"])
def test_the_reference_is_built_from_the_section(name: str) -> None:
    """Every field reaches it, and its weights follow from ``run.seed``."""
    fields = {**SMALL, "tie_weights": False, "dropout": 0.1, "loss_chunk_size": 4}
    module = model_from_config(config(name, **fields))

    assert isinstance(module, Transformer)
    assert fields == {key: getattr(module.config, key) for key in fields}
    same = Transformer(**fields, seed=3)
    assert torch.equal(same.lm_head.weight, module.lm_head.weight)


def test_a_shape_that_does_not_fit_is_the_users_mistake() -> None:
    """One line that says the numbers, without a traceback's details."""
    told = problems(
        ConfigError, lambda: model_from_config(config("gpt", n_head=3, d_model=64))
    )
    assert ["model: n_head 3 does not divide d_model 64"] == told


def test_kwargs_are_not_for_the_reference() -> None:
    """Its numbers stand in the section itself."""
    wrong = config("gpt", kwargs={"n_layer": 2, "n_hed": 2})

    told = problems(ConfigError, lambda: model_from_config(wrong))
    assert 2 == len(told)
    assert "write it as model.n_layer" in told[0]
    assert "did you mean 'n_head'?" in told[1]


def test_a_registered_name() -> None:
    """Both forms of registering, with keywords of any name."""

    @register_model("line")
    def line(width: int, bias: bool = True) -> nn.Module:
        return nn.Linear(width, width, bias=bias)

    assert line is register_model("same line", line)
    module = model_from_config(config("line", kwargs={"width": 3, "bias": False}))
    assert "Linear(in_features=3, out_features=3, bias=False)" == repr(module)
    assert 2 == build_model("same line", width=2).in_features


def test_a_name_belongs_to_one_factory() -> None:
    """Another one is refused; the same one, defined again, replaces it."""

    def define(width: int) -> Callable[[], nn.Module]:
        def line() -> nn.Module:
            return nn.Linear(width, 1)

        return line

    register_model("line", define(1))
    register_model("line", define(2))
    assert 2 == build_model("line").in_features
    with pytest.raises(
        ValueError, match="'line' belongs to .*define.<locals>.line already"
    ):
        register_model("line", nn.Identity)


@pytest.mark.parametrize("name", ["", "a:b"])
def test_names_that_cannot_be_registered(name: str) -> None:
    """A colon means a factory in a module."""
    with pytest.raises(ValueError, match="no colon"):
        register_model(name, nn.Identity)


def test_an_unknown_name_gets_the_nearest() -> None:
    """Registered names are candidates."""
    register_model("my_network", nn.Identity)

    (line,) = problems(ConfigError, lambda: build_model("my_netwrk"))
    # Other tests of this process may have registered models, too.
    assert line.startswith("model.name: expected reference_transformer, gpt, ")
    assert ", my_network or package.module:factory, " in line
    assert line.endswith("found 'my_netwrk', did you mean 'my_network'?")


def test_a_factory_from_a_module(own: Callable[..., str]) -> None:
    """``package.module:factory`` with the section's kwargs."""
    spec = own("def build(width, *, depth=1): return nn.Linear(width, depth)")
    module = model_from_config(config(spec, kwargs={"width": 4, "depth": 2}))

    assert [2, 4] == list(module.weight.shape)


def test_wrong_keywords_are_told_together(own: Callable[..., str]) -> None:
    """One line for each that is unknown, with the nearest name, or missing."""
    spec = own("def build(width, depth=1): return nn.Linear(width, depth)")
    wrong = config(spec, kwargs={"detph": 2})

    where = "model.kwargs: 'own_net:build'"
    assert [
        f"{where} takes no argument 'detph', did you mean 'depth'?",
        f"{where} needs the argument 'width'",
    ] == problems(ConfigError, lambda: model_from_config(wrong))


def test_any_keyword_where_the_factory_takes_any(own: Callable[..., str]) -> None:
    """``**kwargs`` in a factory switches the check off."""
    spec = own("def build(**sizes): return nn.Linear(sizes['anything'], 1)")

    assert 5 == model_from_config(config(spec, kwargs={"anything": 5})).in_features


def test_fields_without_effect_are_refused(own: Callable[..., str]) -> None:
    """A width that a factory never sees would silently train another model."""
    spec = own("def build(): return nn.Linear(1, 1)")
    wrong = config(spec, d_model=64, tie_weights=False, vocab_size=9, max_seq_len=4)

    told = problems(ConfigError, lambda: model_from_config(wrong))
    assert ["model.d_model", "model.tie_weights"] == [s.split(":")[0] for s in told]


def test_a_factory_draws_from_the_runs_seed(own: Callable[..., str]) -> None:
    """Same seed, same weights; the global generator is as it was."""
    spec = own("def build(): return nn.Linear(3, 3)")
    before = torch.get_rng_state()
    first, again = (model_from_config(config(spec)) for _ in range(2))
    other = model_from_config(config(spec, seed=4))

    assert torch.equal(first.weight, again.weight)
    assert not torch.equal(first.weight, other.weight)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("def build(): return 1 / 0", "failed: ZeroDivisionError: division by zero ("),
        ("def build(): exit(0)", "failed: SystemExit: 0 ("),
        ("def build(): return 3", "made int, expected a torch.nn.Module"),
        ("build = nn.Linear(1, 1)", "failed: TypeError: "),
    ],
)
def test_a_factory_that_fails(own: Callable[..., str], body: str, told: str) -> None:
    """One line with the kind of error and where it happened."""
    spec = own(body)

    wrong = lambda: build_model(spec, **({"input": 3} if "Linear" in body else {}))
    (line,) = problems(ModelError, wrong)
    assert told in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("wrap", "kind"),
    [("torch.compile", "OptimizedModule"), ("nn.DataParallel", "DataParallel")],
)
def test_a_wrapped_module_is_refused(
    own: Callable[..., str], wrap: str, kind: str
) -> None:
    """It would be handed labels that the module inside does not take."""
    spec = own(f"def build():\n    return {wrap}(nn.Linear(2, 2))")
    (told,) = problems(ModelError, lambda: build_model(spec))

    assert f"made a {kind}, expected the module inside it" in told
