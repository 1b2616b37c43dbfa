"""An eye on the certificates of TLS: as a metric, and as a warning before they expire."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from dutiful.httpd.tls import TlsError, expiries

if TYPE_CHECKING:
    from dutiful.httpd.tls import TlsFiles
    from dutiful.runtime.ports import Clock
    from dutiful.service.metrics import Metrics

logger = logging.getLogger("dutiful.service")

WARN_BEFORE = timedelta(days=14)
_LOOK_EVERY_S = 6 * 3600.0
_NAMES = {"server": "the certificate of the server", "client_ca": "the authority of the clients"}


async def watch(files: TlsFiles, clock: Clock, metrics: Metrics) -> None:
    """Look at the certificates now and then, for ever."""
    while True:
        look(files, clock, metrics)
        await clock.sleep(_LOOK_EVERY_S)


def look(files: TlsFiles, clock: Clock, metrics: Metrics) -> None:
    """Note when the certificates expire, and warn of those that do soon."""
    try:
        found = expiries(files)
    except TlsError as error:
        logger.warning("it is not known when the certificates expire: %s", error)
        return
    now = clock.now()
    for name, at in found.items():
        metrics.certificate(name, at)
        if at - now <= WARN_BEFORE:
            tense = "expires" if at > now else "has expired"
            logger.warning(
                "%s %s: %s; put a new one in its place", _NAMES[name], tense, f"{at:%Y-%m-%d %H:%M}Z"
            )
