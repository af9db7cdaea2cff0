"""``speedtronic generate``: continue a text with a trained model."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from speedtronic.shell.options import flag, option, positional

if TYPE_CHECKING:
    from speedtronic.shell.data.tokenizers import Tokenizer
    from speedtronic.shell.saved import Saved


@dataclass(frozen=True)
class Options:
    """What ``generate`` understands."""

    run: str = positional(
        "the folder of a run, or of one of its checkpoints", name="run"
    )
    prompt: str = option("the text to continue", metavar="TEXT")
    max_tokens: int = option("tokens to add", default=200, metavar="N", kind=int)
    temperature: float = option(
        "0 takes the likeliest token, 1 draws as the model says",
        default=0.8,
        metavar="X",
        kind=float,
    )
    top_k: int | None = option(
        "draw from the N likeliest only", default=None, metavar="N", kind=int
    )
    seed: int = option(
        "the same seed gives the same text", default=0, metavar="N", kind=int
    )
    device: str = option("where to run", default="auto", metavar="NAME")
    json: bool = flag("print one JSON object")
    debug: bool = flag("show the traceback of an error")


def run(options: Options) -> int:
    """Print the prompt and what follows it, as it comes.

    Raises:
        ConfigError: a number that cannot be used, or a prompt without tokens.
        RunError, ModelError, CheckpointError: the run cannot be used.
    """
    from pathlib import Path

    from speedtronic.shell.console import answer, note, say
    from speedtronic.shell.data.tokenizers import build_tokenizer
    from speedtronic.shell.saved import find_saved

    _check(options)
    saved = find_saved(Path(options.run))
    for line in saved.notes:
        note(line)
    tokenizer = build_tokenizer(saved.config.data)
    tokens = _tokens(options, saved, tokenizer)
    if options.json:
        ids = list(tokens)
        told = {"prompt": options.prompt, "text": tokenizer.decode(ids)}
        answer({"ok": True, **told, "tokens": len(ids), "checkpoint": saved.path})
        return 0
    pieces = _pieces(tokens, tokenizer)
    say(options.prompt + next(pieces), end="")  # the first one shows that it works
    for piece in pieces:
        say(piece, end="")
    say("")
    return 0


def _check(options: Options) -> None:
    from speedtronic.errors import ConfigError

    told = []
    if any("\ud800" <= character <= "\udfff" for character in options.prompt):
        told.append(f"--prompt: expected text in UTF-8, found {options.prompt!a}")
    if options.max_tokens < 1:
        told.append(f"--max-tokens: expected at least 1, found {options.max_tokens}")
    if not 0 <= options.temperature < float("inf"):
        told.append(f"--temperature: expected 0 or more, found {options.temperature}")
    if options.top_k is not None and options.top_k < 1:
        told.append(f"--top-k: expected at least 1, found {options.top_k}")
    if not 0 <= options.seed < 2**63:
        told.append(f"--seed: expected 0 or more, of 63 bits, found {options.seed}")
    if told:
        raise ConfigError(told)


def _tokens(options: Options, saved: "Saved", tokenizer: "Tokenizer") -> Iterator[int]:
    from speedtronic.errors import ConfigError
    from speedtronic.shell.checkpoint import load_model
    from speedtronic.shell.data.recipe import id_limit
    from speedtronic.shell.device import choose_device
    from speedtronic.shell.generate import generate, logits_of
    from speedtronic.shell.models import model_from_config
    from speedtronic.shell.weights import fill

    ids = tokenizer.encode(options.prompt)
    limit = id_limit(saved.config)
    if limit is not None and max(ids, default=0) >= limit[1]:
        raise ConfigError(
            f"--prompt: its token id {max(ids)} is beyond {limit[0]} {limit[1]}"
        )
    module = model_from_config(saved.config).to(choose_device(options.device))
    fill(module, load_model(saved.path)[0], str(saved.path))
    mark = tokenizer.end_of_document
    with logits_of(module) as logits:
        yield from generate(
            logits,
            ids,
            max_tokens=options.max_tokens,
            max_seq_len=saved.config.data.block_size or saved.config.model.max_seq_len,
            temperature=options.temperature,
            top_k=options.top_k,
            seed=options.seed,
            stop_ids=() if mark is None else (mark,),
        )


def _pieces(tokens: Iterator[int], tokenizer: "Tokenizer") -> Iterator[str]:
    """New text after each token; what is not a whole character yet waits.

    There is a last piece at least, if only an empty one.
    """
    ids: list[int] = []
    shown = ""
    for token in tokens:
        ids.append(token)
        text = tokenizer.decode(ids)
        whole = text.rstrip("\N{REPLACEMENT CHARACTER}")
        if whole.startswith(shown):
            yield whole[len(shown) :]
            shown = whole
    yield tokenizer.decode(ids)[len(shown) :]
