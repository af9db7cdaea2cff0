"""The config of a run, as immutable values; importing it does not import torch."""

import attrs

from speedtronic.pure.config.base import Secret, field
from speedtronic.pure.config.data import Data, Source
from speedtronic.pure.config.distributed import Distributed
from speedtronic.pure.config.model import Model
from speedtronic.pure.config.optimizer import Optimizer, Scheduler
from speedtronic.pure.config.run import (
    Checkpoint,
    Compile,
    Evaluation,
    Logging,
    Precision,
    Run,
    ShapeValidation,
)


@attrs.frozen(kw_only=True)
class Config:
    """Everything a run needs to know; one attribute per section of the file."""

    run: Run = field(Run, "what to train for how long")
    model: Model = field(Model, "what to train")
    data: Data = field(Data, "what to train on")
    optimizer: Optimizer = field(Optimizer, "how to step")
    scheduler: Scheduler = field(Scheduler, "how the learning rate moves")
    precision: Precision = field(Precision, "in which arithmetic")
    evaluation: Evaluation = field(Evaluation, "when to look at held-out data")
    checkpoint: Checkpoint = field(Checkpoint, "what to save")
    logging: Logging = field(Logging, "what to tell")
    compile: Compile = field(Compile, "whether to compile")
    distributed: Distributed = field(Distributed, "whom to train with")
    shape_validation: ShapeValidation = field(ShapeValidation, "advice on shapes")
    ooo_backprop: bool = field(False, "out-of-order backward on CUDA", scope="node")
    ooo_streams: int = field(
        4,
        "streams of the out-of-order backward, 1 to 8",
        scope="node",
        check=lambda v: None if 1 <= v <= 8 else "an integer from 1 to 8",
    )


__all__ = [
    "Checkpoint",
    "Compile",
    "Config",
    "Data",
    "Distributed",
    "Evaluation",
    "Logging",
    "Model",
    "Optimizer",
    "Precision",
    "Run",
    "Scheduler",
    "Secret",
    "ShapeValidation",
    "Source",
    "field",
]
