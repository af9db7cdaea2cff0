"""From a request on the wire to its reply: account, fault, latency, quota, route."""

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from urllib.parse import parse_qs, urlsplit

import attrs

from speedtronic.testing.hub import (
    routes_reading,
    routes_repository,
    routes_switches,
    routes_writing,
)
from speedtronic.testing.hub.kinds import KINDS, Fault, Scene
from speedtronic.testing.hub.messages import Refused, Reply, Request, told
from speedtronic.testing.hub.routes_switches import SWITCHES
from speedtronic.testing.hub.routing import Answer, find
from speedtronic.testing.hub.state import HubState
from speedtronic.testing.hub.traffic import Entry
from speedtronic.testing.hub.values import Account

_ROUTES = [
    *routes_repository.ROUTES,
    *routes_reading.ROUTES,
    *routes_writing.ROUTES,
    *routes_switches.ROUTES,
]


class Answering:
    """Answers requests from many threads at once.

    Args:
        state: the Hub.
        latency: seconds that each answer takes, drawn evenly between two bounds.
        seed: of that draw.
        wait: how to spend them.
        verbose: is told each request, as it is answered.
    """

    def __init__(
        self,
        state: HubState,
        latency: tuple[float, float] | None,
        seed: int,
        wait: Callable[[float], object],
        verbose: Callable[[Entry], object] | None,
    ) -> None:
        self._state = state
        self._latency = latency
        self._seed = seed
        self._wait = wait
        self._verbose = verbose
        self._late: list[tuple[int, Callable[[], object]]] = []
        self._lock = threading.Lock()

    def respond(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        chunks: Callable[[], Iterator[bytes]],
    ) -> Reply:
        """Answer one request; see `speedtronic.testing.hub.server.Respond`."""
        started = time.monotonic()
        split = urlsplit(target)
        found = find(_ROUTES, method, split.path)
        switches = found is not None and found[0].endpoint == SWITCHES
        number = -1 if switches else self._state.traffic.next()
        request = Request(
            number=number,
            method=method,
            target=target,
            endpoint=found[0].endpoint if found else "unknown",
            parts=found[1] if found else {},
            query=parse_qs(split.query),
            headers=headers,
            chunks=chunks,
        )
        fault: Fault | None = None
        try:
            if request.endpoint != "lfs-upload":  # the only body not held in memory
                body = b"".join(chunks())
                request = attrs.evolve(request, chunks=lambda: iter([body]))
            if found is None:
                raise Refused(404, f"This emulator has no {method} {split.path}")
            if switches:
                return found[0].answer(self._state, request)
            self._run_late(number)
            request = attrs.evolve(request, account=self._account(headers))
            fault = self._state.faults.next(request)
            self._take_time(number)
            with self._locked(request):
                reply = self._play(fault, request, found[0].answer)
        except Refused as refused:
            reply = refused.reply()
        except ConnectionError:
            reply = Reply(dropped=True)
        except Exception as error:  # an unforeseen request must not look like a 5xx
            message = f"emulator: {type(error).__name__}: {error}"
            reply = told({"error": message}, 400, {"X-Error-Message": message})
        if switches:
            return reply
        entry = Entry(
            number=number,
            method=method,
            target=target,
            endpoint=request.endpoint,
            user=request.user,
            status=0 if reply.dropped else reply.status,
            fault=fault.kind if fault else None,
            seconds=time.monotonic() - started,
        )
        self._state.traffic.add(entry)
        if self._verbose:
            self._verbose(entry)
        return reply

    def _account(self, headers: Mapping[str, str]) -> Account | None:
        word, _, token = headers.get("authorization", "").partition(" ")
        return self._state.accounts.bearer(token) if word == "Bearer" else None

    def _locked(self, request: Request) -> AbstractContextManager[None]:
        if request.endpoint != "commit":
            return nullcontext()
        return self._state.readable(request).locked(self._wait)

    def _take_time(self, number: int) -> None:
        if self._latency is not None:
            draw = random.Random(f"{self._seed} latency {number}")
            self._wait(draw.uniform(*self._latency))

    def _play(self, fault: Fault | None, request: Request, route: Answer) -> Reply:
        limits = self._state.quotas.count_request(request)

        def answer(asked: Request) -> Reply:
            reply = route(self._state, asked)
            return attrs.evolve(reply, headers={**limits, **reply.headers})

        if fault is None:
            return answer(request)
        scene = Scene(
            options=fault.options,
            request=request,
            answer=answer,
            repository=lambda: self._state.repository(request.parts["repository"]),
            postpone=lambda count, act: self._postpone(request.number + count, act),
        )
        return KINDS[fault.kind].play(scene)

    def _postpone(self, due: int, act: Callable[[], object]) -> None:
        with self._lock:
            self._late.append((due, act))

    def _run_late(self, number: int) -> None:
        with self._lock:
            due = [act for when, act in self._late if when <= number]
            self._late = [(when, act) for when, act in self._late if when > number]
        for act in due:
            try:
                act()
            except Refused:
                pass  # nobody waits for the answer any more
