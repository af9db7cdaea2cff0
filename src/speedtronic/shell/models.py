"""From a name and keyword arguments to a module.

A model is named by the reference transformer's name, by a name that `register_model`
knows, or by ``package.module:factory``. The registry is the one place where this
program keeps state between calls: a name has to mean something when a config is read.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, overload

import attrs
import torch
from torch import nn

from speedtronic.errors import ConfigError, ModelError, SpeedtronicError
from speedtronic.pure.config import Config, Model
from speedtronic.pure.config.model import REFERENCE_MODELS
from speedtronic.pure.transformer import Transformer
from speedtronic.shell.device import seeded
from speedtronic.shell.factory import failure, nearest, resolve

Factory = Callable[..., nn.Module]
F = TypeVar("F", bound=Factory)

_REGISTRY: dict[str, Factory] = dict.fromkeys(REFERENCE_MODELS, Transformer)
# What a run does by itself; a wrapper hides which arguments forward takes.
_WRAPPERS = {
    "OptimizedModule": "compiles the whole step with compile.enabled",
    "DataParallel": "runs one process per device",
    "DistributedDataParallel": "runs one process per device",
}
# What the data and the trainer read from the model section, whatever the model.
_FOR_ALL = {"vocab_size", "max_seq_len", "gradient_checkpointing"}


@overload
def register_model(name: str) -> Callable[[F], F]: ...
@overload
def register_model(name: str, factory: F) -> F: ...
def register_model(name: str, factory: Any = None) -> Any:
    """Let ``model.name: NAME`` in a config mean this factory.

    Args:
        name: any text without a colon.
        factory: makes the module from keyword arguments; without it, the call is a
            decorator. The factory of a cell or module that runs again replaces itself.

    Raises:
        ValueError: if the name has a colon or belongs to another factory.

    >>> @register_model("doctest_line")
    ... def line(width: int = 1) -> nn.Module:
    ...     return nn.Linear(width, width)
    >>> build_model("doctest_line", width=3)
    Linear(in_features=3, out_features=3, bias=True)
    """
    if factory is None:
        return lambda decorated: register_model(name, decorated)
    if not name or ":" in name:
        raise ValueError(f"a model's name has no colon, found {name!r}")
    known = _REGISTRY.get(name, factory)
    if known is not factory and _identity(known) != _identity(factory):
        raise ValueError(
            f"the model name {name!r} belongs to {'.'.join(_identity(known))} already"
        )
    _REGISTRY[name] = factory
    return factory


def build_model(name: str, **kwargs: Any) -> nn.Module:
    """The module of a name, built with these keyword arguments.

    Args:
        name: the reference transformer, a registered name, or
            ``package.module:factory``.
        kwargs: of the factory.

    Raises:
        ConfigError: one line for each argument that the factory does not take or
            lacks, with the nearest name; or there is no such model.
        ModelError: the factory failed, or made something else than a module.

    >>> build_model("gpt", n_layer=1, d_model=8, n_hed=2)
    Traceback (most recent call last):
    speedtronic.errors.ConfigError: 'gpt' takes no argument 'n_hed', did you mean
    'n_head'?
    """
    return _build(name, kwargs, "")


def model_from_config(config: Config) -> nn.Module:
    """The module of a run, with its first weights.

    The reference transformer is built from the fields of the model section, any other
    from ``model.kwargs``. What a factory draws from torch's generators follows from
    ``run.seed``, and they are left as they were.

    Raises:
        ConfigError, ModelError: see `build_model`; also for a field that would have no
            effect.
    """
    model = config.model
    with seeded(config.run.seed, torch.device("cpu")):
        if model.name not in REFERENCE_MODELS:
            _refuse_idle_fields(model)
            return _build(model.name, model.kwargs, "model.kwargs: ")
        if model.kwargs:
            raise ConfigError(
                [
                    f"model.kwargs.{key}: kwargs are for factories, write it as"
                    f" model.{key}{nearest(key, _reference_fields())}"
                    for key in model.kwargs
                ]
            )
        fields = {name: getattr(model, name) for name in _reference_fields()}
        return _build(model.name, {**fields, "seed": config.run.seed}, "model: ")


def _build(name: str, kwargs: Mapping[str, Any], where: str) -> nn.Module:
    factory = _factory(name)
    if told := _wrong_arguments(factory, name, kwargs):
        raise ConfigError([where + line for line in told])
    try:
        module: object = factory(**kwargs)
    except SpeedtronicError:
        raise
    except (Exception, SystemExit) as error:
        if factory is Transformer and isinstance(error, ValueError):
            raise ConfigError(f"{where}{error}") from error
        told_error = failure(error)
        raise ModelError(
            f"model.name: building {name!r} failed: {told_error}"
        ) from error
    if not isinstance(module, nn.Module):
        raise ModelError(
            f"model.name: {name!r} made {type(module).__name__}, expected a"
            " torch.nn.Module"
        )
    if (kind := type(module).__name__) in _WRAPPERS:
        raise ModelError(
            f"model.name: {name!r} made a {kind}, expected the module inside it; this"
            f" program {_WRAPPERS[kind]}"
        )
    return module


def _factory(name: str) -> Factory:
    if name in _REGISTRY:
        return _REGISTRY[name]
    if ":" in name:
        return resolve(name, "model.name")
    near = nearest(name, _REGISTRY)
    raise ConfigError(
        f"model.name: expected {', '.join(_REGISTRY)} or package.module:factory, found"
        f" {name!r}{near}"
    )


def _wrong_arguments(
    factory: Factory, name: str, kwargs: Mapping[str, Any]
) -> list[str]:
    """One line for each argument that calling the factory would stumble over."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # written in C: calling it will tell
        return []
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    known = {p.name: p for p in parameters if p.kind in named}
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters)
    unknown = [] if anything else [key for key in kwargs if key not in known]
    told = [
        f"{name!r} takes no argument {key!r}{nearest(key, known)}" for key in unknown
    ]
    return told + [
        f"{name!r} needs the argument {key!r}"
        for key, p in known.items()
        if p.default is p.empty and key not in kwargs
    ]


def _reference_fields() -> list[str]:
    """The fields of the model section that are arguments of the transformer."""
    taken = inspect.signature(Transformer).parameters
    return [field.name for field in attrs.fields(Model) if field.name in taken]


def _refuse_idle_fields(model: Model) -> None:
    plain = Model()
    told = [
        f"model.{name}: no effect on {model.name!r}; write it as model.kwargs.{name}"
        for name in _reference_fields()
        if name not in _FOR_ALL and getattr(model, name) != getattr(plain, name)
    ]
    if told:
        raise ConfigError(told)


def _identity(factory: Factory) -> tuple[str, str]:
    kind = type(factory)
    name = getattr(factory, "__qualname__", kind.__qualname__)
    return getattr(factory, "__module__", kind.__module__), name
