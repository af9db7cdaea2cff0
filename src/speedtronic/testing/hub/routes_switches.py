"""The emulator's own switches, for a run by hand and for other processes.

::

    curl $HF_ENDPOINT/emulator                                       kinds and counts
    curl $HF_ENDPOINT/emulator/faults -d '{"kind": "busy", "times": 3}'
    curl $HF_ENDPOINT/emulator/schedule -d '{"seed": 1, "rate": 0.05}'
    curl $HF_ENDPOINT/emulator/clock -d '{"seconds": 3600}'
    curl -X DELETE $HF_ENDPOINT/emulator/faults

The fields are the arguments of `Faults.inject`, `Faults.schedule` and
`Clock.advance`. They need no token, meet no fault and are not counted.
"""

from collections.abc import Callable
from typing import Any

from speedtronic.testing.hub.kinds import KINDS
from speedtronic.testing.hub.messages import Refused, Reply, Request, told
from speedtronic.testing.hub.routing import Route, route
from speedtronic.testing.hub.state import HubState

SWITCHES = "switches"  # the name of all these endpoints


def _show(hub: HubState, request: Request) -> Reply:
    counts = hub.traffic.counts()
    requests = {f"{name} {status}": n for (name, status), n in counts.requests.items()}
    kinds = {name: kind.text for name, kind in KINDS.items()}
    return told({"requests": requests, "faults": counts.faults, "kinds": kinds})


def _call(function: Callable[..., None], fields: Any) -> Reply:
    if not isinstance(fields, dict):
        raise Refused(400, f"expected an object, found {fields!r}")
    try:
        function(**fields)
    except (TypeError, ValueError) as error:
        raise Refused(400, str(error)) from None
    return told({"ok": True})


def _inject(hub: HubState, request: Request) -> Reply:
    return _call(hub.faults.inject, request.json())


def _schedule(hub: HubState, request: Request) -> Reply:
    return _call(hub.faults.schedule, request.json())


def _advance(hub: HubState, request: Request) -> Reply:
    return _call(hub.clock.advance, request.json())


def _clear(hub: HubState, request: Request) -> Reply:
    hub.faults.clear()
    return told({"ok": True})


def _switch(method: str, path: str, answer: Callable[..., Reply]) -> Route:
    return route(SWITCHES, method, path, answer)


ROUTES = [
    _switch("GET", "/emulator", _show),
    _switch("POST", "/emulator/faults", _inject),
    _switch("DELETE", "/emulator/faults", _clear),
    _switch("POST", "/emulator/schedule", _schedule),
    _switch("POST", "/emulator/clock", _advance),
]
