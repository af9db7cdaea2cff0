"""The role of each parameter, from the type of the module that owns it.

Where the type says nothing, the name and the shape do (`role_by_name`). A module may
say it itself: ``speedtronic_role = "head"`` holds for its own parameters. What a model
of transformers gives as its output embeddings is a head, whatever it is called.
"""

from torch import nn

from speedtronic.pure.optim.roles import ROLES, Role, role_by_name

_EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)
_NORMS = (
    nn.LayerNorm,
    nn.RMSNorm,
    nn.GroupNorm,
    nn.LocalResponseNorm,
    nn.modules.batchnorm._NormBase,
)


def roles_of(module: nn.Module) -> dict[str, Role]:
    """The role of every parameter by name; of a tied one, the strongest claim.

    A weight that is an embedding anywhere is an embedding, so that a tied head is
    never taken for a hidden matrix.

    Raises:
        ValueError: if a module's ``speedtronic_role`` is no role.

    >>> roles_of(nn.Sequential(nn.Embedding(4, 2), nn.LayerNorm(2)))
    {'0.weight': 'embedding', '1.weight': 'norm', '1.bias': 'norm'}
    """
    first = {id(p): name for name, p in module.named_parameters()}
    heads = _output_layers(module)
    claims: dict[str, list[Role]] = {name: [] for name in first.values()}
    for path, part in module.named_modules():
        for leaf, p in part._parameters.items():
            if p is not None:
                name = f"{path}.{leaf}" if path else leaf
                role = _role(path, part, name, p)
                if role == "hidden" and part in heads:
                    role = "head"
                claims[first[id(p)]].append(role)
    order = ("embedding", "head", *ROLES)
    return {
        name: min(found, key=lambda role: order.index(role))
        for name, found in claims.items()
    }


def _output_layers(module: nn.Module) -> set[nn.Module]:
    asked = (getattr(part, "get_output_embeddings", None) for part in module.modules())
    found = (ask() for ask in asked if callable(ask))
    return {layer for layer in found if isinstance(layer, nn.Module)}


def _role(path: str, part: nn.Module, name: str, p: nn.Parameter) -> Role:
    said = getattr(part, "speedtronic_role", None)
    if said is not None:
        if said not in ROLES:
            raise ValueError(
                f"{path or 'the model'}: speedtronic_role is {said!r}, expected one of"
                f" {', '.join(ROLES)}"
            )
        return said  # type: ignore[no-any-return]
    if isinstance(part, _EMBEDDINGS):
        return "embedding"
    if isinstance(part, _NORMS) or type(part).__name__.lower().endswith("norm"):
        return "norm"
    return role_by_name(name, p)
