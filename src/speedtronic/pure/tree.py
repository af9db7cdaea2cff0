"""Immutable states that torch treats as pytrees, and maps over them.

A state is a frozen attrs class. Its fields are leaves or subtrees, except those
made with `static`, which are part of the tree's shape. This is the only file that
imports ``torch.utils._pytree``, which has no public name in torch 2.13.
"""

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Callable[[Any], Any]:
        """Stand in for the type checker's marker, which does nothing at run time."""
        return lambda decorated: decorated


T = TypeVar("T")
Tree = Any  # a pytree of tensors


def static(**kwargs: Any) -> Any:
    """A field that is part of the tree's shape: hashable, compared with ``==``.

    Compiled code is specialised on it, so it should change rarely.
    """
    return attrs.field(metadata={"static": True}, **kwargs)


@dataclass_transform(
    frozen_default=True,
    kw_only_default=True,
    eq_default=False,
    field_specifiers=(attrs.field, static),
)
def state(cls: type[T]) -> type[T]:
    """Make ``cls`` a frozen attrs class and a pytree node.

    The ``__init__`` is ours because Dynamo cannot trace the one that attrs writes
    for frozen classes; unflattening skips it, so that transforms may put masks or
    batched tensors in any field. Equality is identity: ``==`` on tensors is not a
    truth value.

    >>> @state
    ... class Point:
    ...     x: Tensor
    ...     name: str = static(default="p")
    >>> tree_map(lambda t: t + 1, Point(x=torch.zeros(2)))
    Point(x=tensor([1., 1.]), name='p')
    """
    cls = attrs.frozen(eq=False, kw_only=True, init=False)(cls)
    fields: Any = attrs.fields(cls)  # type: ignore[arg-type]
    dynamic = tuple(f.name for f in fields if not f.metadata.get("static"))
    statics = tuple(f.name for f in fields if f.metadata.get("static"))
    defaults = {f.name: f.default for f in fields if f.default is not attrs.NOTHING}
    names = set(dynamic + statics)

    def fill(target: Any, values: dict[str, Any]) -> Any:
        for name in dynamic + statics:
            object.__setattr__(target, name, values[name])
        return target

    def init(self: Any, **given: Any) -> None:
        values = {**defaults, **given}
        if values.keys() != names:
            missing = sorted(names - values.keys())
            unknown = sorted(values.keys() - names)
            raise TypeError(f"{cls.__name__}: {missing=}, {unknown=}")
        fill(self, values)

    def flatten(value: Any) -> tuple[list[Any], Any]:
        leaves = [getattr(value, name) for name in dynamic]
        return leaves, tuple(getattr(value, name) for name in statics)

    def flatten_with_keys(value: Any) -> tuple[list[tuple[Any, Any]], Any]:
        leaves, context = flatten(value)
        keys = [pytree.GetAttrKey(name) for name in dynamic]
        return list(zip(keys, leaves, strict=True)), context

    def unflatten(leaves: Iterable[Any], context: Any) -> T:
        values = dict(zip(dynamic + statics, (*leaves, *context), strict=True))
        return fill(object.__new__(cls), values)  # type: ignore[no-any-return]

    cls.__init__ = init  # type: ignore[method-assign]
    pytree.register_pytree_node(
        cls,
        flatten,
        unflatten,
        flatten_with_keys_fn=flatten_with_keys,
        serialized_type_name=f"{cls.__module__}.{cls.__qualname__}",
    )
    return cls


def evolve(value: T, /, **changes: Any) -> T:
    """A copy of ``value`` with some fields replaced."""
    copy: Any = attrs.evolve
    return copy(value, **changes)  # type: ignore[no-any-return]


def tree_map(function: Callable[..., Any], tree: Tree, *rest: Tree) -> Tree:
    """Apply ``function`` to the corresponding leaves of one or more trees.

    >>> tree_map(torch.add, {"w": torch.ones(1)}, {"w": torch.ones(1)})
    {'w': tensor([2.])}
    """
    return pytree.tree_map(function, tree, *rest)


def leaves(tree: Tree) -> list[Any]:
    """The leaves in flattening order."""
    return pytree.tree_leaves(tree)


def unflatten_like(tree: Tree, new_leaves: Iterable[Any]) -> Tree:
    """A tree of the same shape with other leaves.

    >>> unflatten_like({"a": 1, "b": 2}, [3, 4])
    {'a': 3, 'b': 4}
    """
    return pytree.tree_unflatten(list(new_leaves), pytree.tree_structure(tree))


_ESCAPE = re.compile(r"\\(?:x(..)|u(.{4})|U(.{8})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}


def unquoted(quoted: str) -> str | None:
    """The text key that a path shows in quotes; None if it is not such a text.

    Paths are read back from files that others may have written, so nothing is
    evaluated.

    >>> unquoted("'a.b'"), unquoted("'a' + 'b'")
    ('a.b', None)
    """

    def plain(found: re.Match[str]) -> str:
        code = found[1] or found[2] or found[3]
        return chr(int(code, 16)) if code else _ESCAPED.get(found[4], found[4])

    try:
        text = _ESCAPE.sub(plain, quoted[1:-1])
    except (ValueError, OverflowError):  # no such character
        return None
    return text if repr(text) == quoted else None


def named_leaves(tree: Tree) -> dict[str, Any]:
    """Leaves by path, such as ``.params['w']``.

    >>> named_leaves({"a": [1, 2]})
    {"['a'][0]": 1, "['a'][1]": 2}
    """
    flat, _ = pytree.tree_flatten_with_path(tree)
    return {pytree.keystr(path): leaf for path, leaf in flat}


def zeros_like(tree: Tree) -> Tree:
    """A tree of zeros with the same shapes, dtypes and devices."""
    return tree_map(torch.zeros_like, tree)


def global_norm(tree: Tree) -> Tensor:
    """The 2-norm of all leaves taken as one vector.

    Returns:
        A 0-d float32 tensor; 0 for a tree without leaves.

    >>> global_norm({"a": torch.tensor([3.0]), "b": torch.tensor([4.0])})
    tensor(5.)
    """
    norms = [torch.linalg.vector_norm(x, dtype=torch.float32) for x in leaves(tree)]
    if not norms:
        return torch.zeros(())
    total: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    return total


def check_same(what: str, expected: Tree, found: Tree) -> None:
    """Raise ValueError unless both trees have the same paths, shapes and dtypes.

    >>> check_same("delta", {"w": torch.ones(2)}, {"w": torch.ones(3)})
    Traceback (most recent call last):
    ValueError: delta['w'] is float32[3], expected float32[2]
    >>> check_same("delta", {"w": torch.ones(2)}, {"v": torch.ones(2)})
    Traceback (most recent call last):
    ValueError: delta['v'] is unexpected; delta['w'] is missing
    """
    want, got = _describe(expected), _describe(found)
    told = [
        f"{what}{path} is {got[path]}, expected {want[path]}"
        if path in want and path in got
        else f"{what}{path} is {'missing' if path in want else 'unexpected'}"
        for path in sorted(want.keys() | got.keys())
        if want.get(path) != got.get(path)
    ]
    if told:
        raise ValueError("; ".join(told))


def _describe(tree: Tree) -> dict[str, str]:
    return {
        path: f"{x.dtype}{list(x.shape)}".removeprefix("torch.")
        if isinstance(x, Tensor)
        else type(x).__name__
        for path, x in named_leaves(tree).items()
    }
