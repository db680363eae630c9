"""What is told before and after a cluster is connected to: its address, the nodes that differ, what is sent to them."""

from __future__ import annotations

import socket
import zipfile
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from onnx_parity.harness.cli import app
from onnx_parity.harness.cluster import connection, travelling
from onnx_parity.harness.cluster.connection import ClusterError, refuse_unusable
from onnx_parity.harness.cluster.estimates import Estimates, estimates_from
from onnx_parity.harness.cluster.facts import differences
from onnx_parity.harness.cluster.messages import Facts
from onnx_parity.harness.cluster.travelling import TooLargeError, archive_of, project_files
from onnx_parity.harness.record import Kind
from tests.records import RECORD, write_run

HERE = Facts(
    "driver", "Linux-6.1-x86_64-with-glibc2.36", {"python": "3.12.1", "onnx": "1.23.2"}, {"harness/a.py": "1"}, {}
)


@pytest.fixture
def ray_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "find_spec", lambda name: object())
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


def test_without_ray_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "find_spec", lambda name: None)
    with pytest.raises(ClusterError) as refused:
        refuse_unusable("ray")
    assert str(refused.value) == "--on ray needs Ray, which is not installed here: pip install 'onnx-parity[ray]'"


@pytest.mark.usefixtures("ray_is_there")
def test_an_address_where_nothing_answers_is_told_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(ClusterError) as refused:
            refuse_unusable(address)
    assert str(refused.value) == (
        f"nothing answers at {address}, where --on or RAY_ADDRESS says that a Ray cluster is. `ray status` on its head "
        "tells whether it runs."
    )


@pytest.mark.usefixtures("ray_is_there")
@pytest.mark.parametrize("address", ["rey", "10.0.0.5", "10.0.0.5:", ":6379", "host:port"])
def test_what_is_no_address_is_told(address: str) -> None:
    with pytest.raises(ClusterError) as refused:
        refuse_unusable(address)
    assert str(refused.value) == (
        f"--on {address} is no address of a Ray cluster: write ray, or host:port, such as 10.0.0.5:6379."
    )


@pytest.mark.usefixtures("ray_is_there")
def test_ray_alone_is_the_cluster_that_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_unusable("ray")
    monkeypatch.setenv("RAY_ADDRESS", "nowhere")
    with pytest.raises(ClusterError, match="--on nowhere is no address"):
        refuse_unusable("ray")


def test_a_cluster_needs_a_worker() -> None:
    ended = CliRunner().invoke(app, ["run", "--on", "ray", "-n", "0", str(Path(__file__))])
    assert ended.exit_code == 2
    assert ended.stderr == "-n 0 runs cells without workers, and --on ray needs at least one.\n"


def test_nodes_that_differ_are_told_how() -> None:
    assert differences(HERE, HERE) == ()
    other_kernel = Facts("node", "Linux-5.15-aws-x86_64-with-glibc2.36", HERE.packages, HERE.contents, {})
    assert differences(other_kernel, HERE) == ()
    other = Facts(
        "node", "Linux-6.1-aarch64-with-glibc2.36", {"python": "3.11.7", "torch": "2.13"}, {"harness/a.py": "2"}, {}
    )
    assert differences(other, HERE) == (
        "onnx is not installed (here 1.23.2)",
        "python 3.11.7 (here 3.12.1)",
        "torch 2.13 (here none)",
        "it is Linux-6.1-aarch64-with-glibc2.36 (here Linux-6.1-x86_64-with-glibc2.36)",
        "1 file of onnx-parity differ, such as harness/a.py",
    )


def test_the_projects_files_are_sent(tmp_path: Path) -> None:
    for name in ("cases/a.py", "pyproject.toml", "runs/1/run.json", ".venv/lib.py", "cases/__pycache__/a.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to(tmp_path / "cases")
    assert sorted(map(str, project_files(tmp_path))) == ["cases/a.py", "pyproject.toml"]
    with archive_of(tmp_path) as archive, zipfile.ZipFile(archive) as content:
        assert content.read("cases/a.py") == b"cases/a.py"
        first = archive.read_bytes()
    (tmp_path / "cases" / "a.py").touch()
    with archive_of(tmp_path) as archive:
        assert archive.read_bytes() == first, "Ray sends the same archive only once"


def test_a_project_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "weights.bin").write_bytes(bytes(3 << 20))
    monkeypatch.setattr(travelling, "_LARGEST", 2 << 20)
    with (
        pytest.raises(TooLargeError, match=r"are 3 MiB, and Ray sends at most 2; the largest is weights.bin"),
        archive_of(tmp_path),
    ):
        pass


def test_cells_are_expected_to_take_what_they_took(tmp_path: Path) -> None:
    ran = replace(RECORD, elapsed=3.0, memory=700)
    run = write_run(tmp_path, [ran, replace(RECORD, cell="another of its cells", elapsed=1.0)])
    known = estimates_from(run)
    assert known.of(ran.cell, "elu", Kind.OPERATOR) == (3.0, 700)
    assert known.of("a new cell", "elu", Kind.OPERATOR) == (2.0, 700)
    assert known.of("a new cell", "relu", Kind.MODEL) == Estimates().of("", "", Kind.MODEL)
