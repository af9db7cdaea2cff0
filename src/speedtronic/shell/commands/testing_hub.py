"""``speedtronic testing hub``: a Hub on this machine, for trying things by hand."""

from dataclasses import dataclass

from speedtronic.shell.options import flag, option


@dataclass(frozen=True)
class Options:
    """What ``testing hub`` understands."""

    port: int = option(
        "where to listen; 0 takes a free one",
        default=8123,
        metavar="N",
        kind=int,
    )
    folder: str | None = option(
        "keep repositories here, for the next time", default=None, metavar="DIR"
    )
    latency: str | None = option(
        "seconds that each answer takes, such as 0.3,3", default=None, metavar="MIN,MAX"
    )
    quota_commits: int | None = option(
        "commits of a repository in an hour", default=None, metavar="N", kind=int
    )
    quota_requests: int | None = option(
        "requests to the API in five minutes", default=None, metavar="N", kind=int
    )
    faults: float = option(
        "share of requests that meet a fault, drawn by the seed",
        default=0.0,
        metavar="RATE",
        kind=float,
    )
    seed: int = option("of faults and latencies", default=0, metavar="N", kind=int)
    verbose: bool = flag("print one line for each request")
    json: bool = flag("print one JSON object at the end, and the rest to stderr")
    debug: bool = flag("show the traceback of an error")


def run(options: Options) -> int:
    """Serve until a signal comes.

    Raises:
        ConfigError: an option that cannot be used, or a port that is taken.
        OSError: the folder cannot be used.
    """
    import errno
    import time

    from speedtronic.errors import ConfigError
    from speedtronic.shell.console import answer, note, say
    from speedtronic.shell.interrupt import Interrupt
    from speedtronic.testing.hub import HubEmulator, Limits

    tell = note if options.json else say
    hub = HubEmulator(
        latency=bounds(options.latency),
        seed=options.seed,
        folder=options.folder,
        limits=Limits(
            commits_per_hour=options.quota_commits, requests=options.quota_requests
        ),
        port=options.port,
        verbose=(lambda entry: tell(entry.text())) if options.verbose else None,
    )
    if not 0 <= options.faults <= 1:
        raise ConfigError(f"--faults: expected 0 to 1, found {options.faults}")
    hub.faults.schedule(options.seed, options.faults)
    # Tokens that may be shown: they open nothing but this emulator.
    write = hub.add_token(USER, "write", "emulator-write")
    read = hub.add_token(USER, "read", "emulator-read")
    interrupt = Interrupt()
    try:
        with interrupt, hub:
            tell(welcome(hub.endpoint, write, read))
            while not interrupt:
                time.sleep(_GLANCE_S)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise ConfigError(
            f"--port: expected a free port, found {options.port} in use; "
            "0 takes a free one"
        ) from None
    counts = hub.counts()
    code = interrupt.exit_code or 0
    tell(f"stopped after {counts.total} requests and {counts.commits} commits")
    if options.json:
        told = {"requests": counts.total, "commits": counts.commits}
        answer({"ok": code == 0, "exit_code": code, "endpoint": hub.endpoint, **told})
    return code


USER = "owner"
_GLANCE_S = 0.1


def bounds(text: str | None) -> tuple[float, float] | None:
    """The two ends of a range of seconds.

    Raises:
        ConfigError: it is none.

    >>> bounds("0.3,3")
    (0.3, 3.0)
    """
    from speedtronic.errors import ConfigError

    if text is None:
        return None
    try:
        least, most = (float(word) for word in text.split(","))
        if not 0 <= least <= most < float("inf"):
            raise ValueError
    except ValueError:
        raise ConfigError(
            f"--latency: expected two numbers of seconds, such as 0.3,3, found {text!r}"
        ) from None
    return least, most


def welcome(endpoint: str, write: str, read: str) -> str:
    """What to do with it."""
    return f"""A Hub of model repositories at {endpoint}, for the user {USER!r}.

    export HF_ENDPOINT={endpoint} HF_TOKEN={write}
    export HF_HUB_DISABLE_XET=1 HF_HUB_DISABLE_TELEMETRY=1
    hf upload {USER}/demo README.md

A token that may only read: {read}
Faults: curl {endpoint}/emulator/faults -d '{{"kind": "busy", "times": 3}}'
Kinds of fault, and counts: curl {endpoint}/emulator

Ctrl-C ends it."""
