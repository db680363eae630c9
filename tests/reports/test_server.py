"""The served report: to this machine alone, to no page of another site, and anew while the run goes on."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from onnx_parity.reports import server as server_module
from onnx_parity.reports.server import HOST, Followed, serve


class Run:
    """A run that is going on, and the report of it."""

    def __init__(self) -> None:
        self.cells = 1
        self.has_ended = False
        self.full = ""

    def write(self, folder: Path) -> None:
        folder.mkdir()
        if self.full:
            raise OSError(28, self.full)
        (folder / "index.html").write_text(f'<title>{self.cells} cells</title><main id="main">')
        (folder / "secret.txt").write_text("not a file of a report")

    def state(self) -> tuple[object, bool]:
        return self.cells, self.has_ended


@pytest.fixture
def run() -> Run:
    return Run()


@pytest.fixture
def port(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(server_module, "_LOOK", 0.01)
    found: list[int] = []
    servers: list[ThreadingHTTPServer] = []
    ready = threading.Event()

    class Noted(ThreadingHTTPServer):
        def serve_forever(self, poll_interval: float = 0.01) -> None:
            servers.append(self)
            super().serve_forever(poll_interval)

    def tell(address: str) -> None:
        found.append(int(address.rstrip("/").rpartition(":")[2]))
        ready.set()

    monkeypatch.setattr(server_module, "ThreadingHTTPServer", Noted)
    followed = Followed(tmp_path, run.write, run.state)
    thread = threading.Thread(
        target=serve, args=(followed, lambda asked, name: f'piece("{name}", "{asked["case"]}")', 0, tell), daemon=True
    )
    thread.start()
    assert ready.wait(10)
    yield found[0]
    servers[0].shutdown()
    thread.join(10)
    assert not thread.is_alive()


def get(port: int, path: str, **headers: str) -> tuple[int, str, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("GET", path, headers=named)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text, answer.headers


def first_page(port: int, shows: Callable[[str, http.client.HTTPMessage], bool]) -> str:
    """The first page once it shows something."""
    for _ in range(500):
        _, text, headers = get(port, "/index.html")
        if shows(text, headers):
            return text
        threading.Event().wait(0.01)
    raise AssertionError(text)


def test_the_report_is_written_anew_until_the_run_has_ended(port: int, run: Run) -> None:
    status, text, headers = get(port, "/")
    assert (status, text, headers["Refresh"]) == (200, '<title>1 cells</title><main id="main">', "10")
    run.cells, run.has_ended = 2, True
    text = first_page(port, lambda text, headers: headers["Refresh"] is None)
    assert text == '<title>2 cells</title><main id="main">'


class Replaced(Followed):
    """A report that is replaced for the last time whenever its folder has been asked for."""

    _folder: Path

    @property
    def folder(self) -> Path:
        found, self._folder, self.has_ended = self._folder, self._root, True
        return found

    @folder.setter
    def folder(self, folder: Path) -> None:
        self._folder = folder


def test_a_page_that_is_replaced_while_it_is_read_is_whole_and_loaded_again(run: Run, tmp_path: Path) -> None:
    followed = Replaced(tmp_path, run.write, run.state)
    followed.folder, followed.has_ended = tmp_path / "report-1", False
    with ThreadingHTTPServer((HOST, 0), partial(server_module._Handler, followed, lambda asked, name: "")) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        status, text, headers = get(server.server_port, "/")
    assert (status, text, headers["Refresh"]) == (200, '<title>1 cells</title><main id="main">', "10")


def test_a_report_that_cannot_be_written_anew_says_so_until_it_can(port: int, run: Run, tmp_path: Path) -> None:
    run.full, run.cells = "no space left for <b>", 2
    text = first_page(port, lambda text, headers: "older than its run" in text)
    assert "<title>1 cells</title>" in text and "no space left for &lt;b&gt;" in text
    assert [folder.name for folder in tmp_path.glob("report-*")] == ["report-1"]
    run.full = ""
    assert "older" not in first_page(port, lambda text, headers: "2 cells" in text)


def test_a_case_is_drawn_when_a_page_asks_for_it(port: int) -> None:
    status, text, headers = get(port, "/draw/drawn.js?case=elu%5B1%5D")
    assert (status, text) == (200, 'piece("drawn?case=elu%5B1%5D", "elu[1]")')
    assert headers["Content-Type"].startswith("text/javascript")


@pytest.mark.parametrize(
    "path", ["/secret.txt", "/../run.json", "/%2e%2e/run.json", "/nothing.html", "//etc/passwd", "/%00"]
)
def test_only_files_of_the_report_are_served(port: int, path: str) -> None:
    assert get(port, path)[0] == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "example.org"},
        {"Host": "example.org:80"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"},
        {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "cors"},
    ],
)
def test_other_sites_read_nothing(port: int, headers: dict[str, str]) -> None:
    assert get(port, "/index.html", **headers)[:2] == (403, "")


def test_a_link_of_another_site_may_lead_to_the_report(port: int) -> None:
    assert get(port, "/index.html", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")[0] == 200


def test_the_server_listens_on_this_machine_alone(port: int) -> None:
    assert server_module.HOST == "127.0.0.1"
    assert get(port, "/")[2]["Cross-Origin-Resource-Policy"] == "same-origin"
