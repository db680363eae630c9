"""`parity report --serve`: shows a report to the browsers of this machine, and updates it while the run goes on.

The server listens on the loopback address alone. It answers requests for its own name only, and none that another
site's page makes, so that no page of the web can read a report through the reader's browser.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from markupsafe import escape

from onnx_parity.harness.escaping import markup_text
from onnx_parity.harness.run_store_error import RunStoreError
from onnx_parity.reports.publish import ReportError

HOST = "127.0.0.1"
#: While the run goes on: seconds between two looks at it, and between two loads of a page.
_LOOK, _RELOAD = 1.0, 10
#: A report is written again after at least this many times the duration of the last time.
_REST = 3.0
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".md": "text/markdown; charset=utf-8",
    ".xml": "application/xml",
}
_DRAWN = "/draw/drawn.js"
#: Where the content of a page begins.
_MAIN = b'<main id="main">'


class Followed:
    """The report of a run in a temporary folder, which is replaced when the run has more to show."""

    def __init__(self, root: Path, write: Callable[[Path], object], state: Callable[[], tuple[object, bool]]) -> None:
        """`write` writes the report into a folder. `state` returns something that differs once there is more to show,
        and whether the run has ended."""
        self._root = root
        self._write = write
        self._state = state
        self._number = 0
        self._shown: object = None
        self.has_ended = False
        #: Why the report is older than the run; empty if it is not.
        self.trouble = ""
        self.folder = root
        self.update()

    def update(self) -> None:
        """Write the report if there is more to show than last time."""
        state, ended = self._state()
        if state != self._shown:
            aside = self._root / "next"
            # What an attempt that failed has left.
            shutil.rmtree(aside, ignore_errors=True)
            self._write(aside)
            self._number += 1
            folder = aside.rename(self._root / f"report-{self._number}")
            self.trouble = ""
            before, self.folder, self._shown = self.folder, folder, state
            # A page that is being read may still ask for the files of the one before.
            if before != self._root:
                threading.Timer(30.0, partial(shutil.rmtree, before, ignore_errors=True)).start()
        self.has_ended = ended

    def follow(self, stopped: threading.Event) -> None:
        """Update the report until the run has ended or `stopped` is set. If that fails, `trouble` says so, and it is
        tried again."""
        rest = _LOOK
        try:
            while not self.has_ended and not stopped.wait(rest):
                began = time.monotonic()
                try:
                    self.update()
                    self.trouble = ""
                except (OSError, RunStoreError, ReportError) as error:
                    self.trouble = f"It could not be updated: {error}"
                rest = max(_LOOK, _REST * (time.monotonic() - began))
        finally:
            if not self.has_ended and not stopped.is_set():
                self.trouble = "The run is no longer followed because of an error, which the terminal shows."


def serve(
    followed: Followed,
    draw: Callable[[dict[str, str], str], str],
    port: int,
    ready: Callable[[str], object],
) -> None:
    """Serve until interrupted. `draw` returns the script with the drawing of a case, under the name of its request.

    `ready` is called with the address, once requests are answered. Raises OSError if the port is taken.
    """
    stopped = threading.Event()
    drawing = threading.Lock()

    def drawn(asked: dict[str, str], name: str) -> str:
        with drawing:
            return draw(asked, name)

    with ThreadingHTTPServer((HOST, port), partial(_Handler, followed, drawn)) as server:
        server.daemon_threads = True
        follower = threading.Thread(target=followed.follow, args=(stopped,), daemon=True)
        follower.start()
        ready(f"http://{HOST}:{server.server_port}/")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return
        finally:
            stopped.set()


def _notice(trouble: str) -> bytes:
    text = escape(f"This report is older than its run. {markup_text(trouble)}")
    return f'<aside class="notice" role="alert"><p>{text}</p></aside>'.encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(
        self, followed: Followed, draw: Callable[[dict[str, str], str], str], *arguments: object, **more: object
    ) -> None:
        self._followed = followed
        self._draw = draw
        super().__init__(*arguments, **more)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        port = self.connection.getsockname()[1]
        own = {f"{HOST}:{port}", f"localhost:{port}"}
        site = self.headers.get("Sec-Fetch-Site", "none")
        # Somebody else's page may be opened from a link, but may not load anything from here.
        is_link = self.headers.get("Sec-Fetch-Mode") == "navigate"
        if self.headers.get("Host") not in own or (site not in ("none", "same-origin") and not is_link):
            return self._refuse(HTTPStatus.FORBIDDEN)
        address = urlsplit(self.path)
        # Both once, and in this order: the report may be replaced meanwhile, and is not once the run has ended.
        has_ended, folder = self._followed.has_ended, self._followed.folder
        if address.path == _DRAWN:
            text = self._draw(dict(parse_qsl(address.query)), f"drawn?{address.query}")
            return self._send(text.encode(), ".js")
        file = folder / (unquote(address.path).lstrip("/") or "index.html")
        try:
            inside = file.resolve().is_relative_to(folder.resolve())
            content = file.read_bytes() if inside and file.suffix in _TYPES else None
        except (OSError, ValueError):
            content = None
        if content is None:
            return self._refuse(HTTPStatus.NOT_FOUND)
        if file.suffix == ".html" and self._followed.trouble:
            content = content.replace(_MAIN, _MAIN + _notice(self._followed.trouble), 1)
        return self._send(content, file.suffix, reload=file.suffix == ".html" and not has_ended)

    def _send(self, content: bytes, suffix: str, *, reload: bool = False) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", _TYPES[suffix])
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        if reload:
            # The browser loads the page again, with the part of the address after # and where it was scrolled to.
            self.send_header("Refresh", str(_RELOAD))
        self.end_headers()
        with suppress(ConnectionError):
            self.wfile.write(content)

    def _refuse(self, status: HTTPStatus) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing for each request."""
