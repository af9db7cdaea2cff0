"""Advice on shapes where a run tells things: once, as its first attempt begins."""

import logging

from speedtronic.pure.shapes import advice, alignment, profile
from speedtronic.shell.metrics import MetricLog
from speedtronic.shell.session import Session

logger = logging.getLogger(__name__)


def tell_shapes(session: Session, log: MetricLog, step: int) -> None:
    """Log the shapes of a run, and what could be changed; nothing is.

    Args:
        session: of the run.
        log: gets a ``shape_profile``, and a ``shape_warning`` for each advice.
        step: at which the attempt begins.
    """
    config, device = session.config, session.device.type
    section, precision = config.shape_validation, session.arithmetic.name
    if not section.enabled:
        return
    sizes = profile(config)
    log.event(
        "shape_profile",
        step,
        device=device,
        precision=precision,
        alignment=alignment(section, device, precision),
        shapes=sizes,
    )
    logger.info("shapes: %s", ", ".join(f"{n} {size}" for n, size in sizes.items()))
    for one in advice(config, device, precision):
        log.event(
            "shape_warning",
            step,
            field=one.path,
            shape=one.what,
            found=one.found,
            alignment=one.alignment,
            suggestion=one.suggestion,
        )
        logger.warning("shapes: %s", one)
