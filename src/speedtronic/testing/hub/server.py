"""HTTP/1.1 on loopback: bytes in, `Request`; `Reply`, bytes out.

What the client is picky about: a request's body is read to its end whatever the
answer, also a chunked one, or the connection is out of step; headers and body leave
in one write; a reply to HEAD carries the length of the body that it leaves out.
"""

import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Protocol

from speedtronic.testing.hub.messages import Reply

_CHUNK = 1 << 20  # bytes read at once
_GLANCE_S = 0.02  # how often what waits looks whether it still should


class Respond(Protocol):
    """What answers; it raises nothing."""

    def __call__(
        self,
        method: str,
        target: str,
        headers: dict[str, str],
        chunks: Callable[[], Iterator[bytes]],
    ) -> Reply:
        """Answer one request."""


class HubServer(ThreadingHTTPServer):
    """A server that can be stopped while clients wait for it."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, port: int, respond: Respond) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.respond = respond
        self.stopping = threading.Event()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()

    def start(self) -> None:
        """Serve from a thread of its own."""
        self._thread = threading.Thread(
            target=self.serve_forever,
            args=(_GLANCE_S,),
            name="hub-emulator",
            daemon=True,
        )
        self._thread.start()

    def stop(self) -> None:
        """End every connection and every wait."""
        self.stopping.set()
        self.shutdown()
        self._thread.join()
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # its client was faster
        self.server_close()

    def track(self, connection: socket.socket, *, is_open: bool) -> None:
        """Remember a connection for `stop`."""
        with self._lock:
            (self._open.add if is_open else self._open.discard)(connection)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no error; anything else is shown."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    server: HubServer

    def setup(self) -> None:
        super().setup()
        self.server.track(self.connection, is_open=True)

    def finish(self) -> None:
        self.server.track(self.connection, is_open=False)
        try:
            super().finish()
        except ConnectionError:
            pass

    def _serve(self) -> None:
        body = self._body()
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.server.respond(self.command, self.path, headers, lambda: body)
        for _ in body:
            pass
        self._pause(reply.delay_s)
        if reply.dropped or self.server.stopping.is_set():
            self.close_connection = True
            return
        self._send(reply)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _serve

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        if self.command != "HEAD":
            sent = len(reply.body) if reply.sent is None else reply.sent
            self.wfile.write(reply.body[:sent])
        self.wfile.flush()
        if reply.sent is not None:
            self._pause(reply.pause_s)
            self.close_connection = True

    def _pause(self, seconds: float) -> None:
        """Wait, but not for a client that left, nor beyond the server's end."""
        over = time.monotonic() + seconds
        while (left := over - time.monotonic()) > 0:
            if self.server.stopping.wait(min(left, _GLANCE_S)):
                return
            readable, _, _ = select.select([self.connection], [], [], 0)
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                return

    def _body(self) -> Iterator[bytes]:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline().split(b";")[0], 16):
                yield from self._exactly(size)
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
        else:
            yield from self._exactly(int(self.headers.get("Content-Length") or 0))

    def _exactly(self, size: int) -> Iterator[bytes]:
        while size:
            chunk = self.rfile.read(min(size, _CHUNK))
            if not chunk:
                raise ConnectionResetError("the client left in the middle of a body")
            size -= len(chunk)
            yield chunk

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing on stderr: the traffic is counted elsewhere."""
