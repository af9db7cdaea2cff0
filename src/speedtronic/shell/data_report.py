"""What a config's data holds, in numbers, for ``prepare`` and ``data stats``."""

from typing import Any

from speedtronic.pure.config import Config
from speedtronic.shell.data.pipeline import Prepared, open_data, prepare_all
from speedtronic.shell.data.prepare import Progress
from speedtronic.shell.data.recipe import ingredients
from speedtronic.shell.data.tokenizers import build_tokenizer
from speedtronic.shell.paths import token_folder


def prepare(config: Config, progress: Progress) -> dict[str, Any]:
    """Make the token stores that a config needs, and count what they hold.

    Returns:
        JSON values. Data that is not text or tokens needs no store and has no counts.

    Raises:
        DataError: the data cannot be used.
        StorageError: a store cannot be written.
    """
    tokenizer = build_tokenizer(config.data)
    found = ingredients(config.data, tokenizer)
    if found and found[0].source is None:
        opened = open_data(config, directory=token_folder(config), progress=progress)
        notes = list(opened.notes)
        opened.close()
        return {"samples_of": found[0].name, "sources": [], "notes": notes}
    prepared = prepare_all(config, found, tokenizer, token_folder(config), progress)
    return _counts(config, prepared)


def _counts(config: Config, prepared: Prepared) -> dict[str, Any]:
    train = sum(map(len, prepared.train))
    per_step = config.data.target_batch_size * prepared.block
    # Rows of whole documents are packed, so their number is not known from counts.
    steps = 0 if config.data.order == "documents" else train // per_step
    return {
        "sources": [
            {
                "source": store.about.source,
                "documents": store.about.documents,
                "tokens": store.about.tokens,
                "text_bytes": store.about.text_bytes,
                "highest_id": store.about.max_id,
                "store": str(store.folder),
            }
            for store in prepared.stores
        ],
        "train_tokens": train,
        "held_out_tokens": sum(map(len, prepared.held_out)),
        "vocab_size": prepared.vocab_size,
        "block_size": prepared.block,
        "tokens_per_step": per_step,
        "steps_per_epoch": steps or None,
        "epochs": round(config.run.max_steps / steps, 3) if steps else None,
        "notes": prepared.notes,
    }
