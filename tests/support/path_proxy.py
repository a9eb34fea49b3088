"""A proxy that shows a server below a path, as people put one before the console.

It takes the path off before it passes a request on, and changes nothing else.
"""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_OF_THE_CONNECTION = {"connection", "transfer-encoding", "keep-alive"}


@contextmanager
def below(path: str, port: int) -> Iterator[str]:
    """The address under which the server at a port of loopback is shown, such as `/kafscale/`."""

    class Handler(BaseHTTPRequestHandler):
        def _pass_on(self) -> None:
            if not self.path.startswith(path):
                self.send_error(404)
                return
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            server = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
            server.request(self.command, f"/{self.path[len(path) :]}", body, dict(self.headers))
            answer = server.getresponse()
            content = answer.read()
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in {*_OF_THE_CONNECTION, "content-length"}:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            server.close()

        do_GET = do_POST = do_DELETE = do_PATCH = _pass_on  # noqa: N815 - names of http.server

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{proxy.server_address[1]}{path}"
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()
