"""The recipes of docs/cluster: they are well-formed, and the commands in them have the options that they use."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from documents.harness_page import commands
from onnx_parity.harness.pytest_plugin.options import with_prefix
from onnx_parity.harness.record import Status
from onnx_parity.harness.store import read_records

DOCS = Path(__file__).parents[2] / "docs"
RECIPES = sorted((DOCS / "cluster").iterdir())
#: `parity`, its subcommand, and the rest of the line.
_COMMAND = re.compile(r"(?<![\w:.-])parity ([a-z-]+)((?: [^`\n|&;\"]+)?)")


def used_options(text: str) -> list[tuple[str, str]]:
    """The options that the commands of a text have, each with the subcommand."""
    text = (
        text.replace("\\\n", " ").replace("${{ matrix.shard }}", "1").replace("${PARITY_OPTIONS:-", "").replace("}", "")
    )
    return [
        (command, word.partition("=")[0])
        for command, rest in _COMMAND.findall(text)
        for word in shlex.split(rest.replace("'", ""), comments=True)
        if word.startswith("-")
    ]


@pytest.mark.parametrize("path", [DOCS / "cluster.md", *RECIPES], ids=lambda path: path.name)
def test_commands_have_the_options_that_recipes_use(path: Path) -> None:
    known = commands()
    used = used_options(path.read_text())
    assert used
    unknown = [
        (command, option)
        for command, option in used
        if command not in known
        or (
            option not in {name for each in known[command].params for name in (*each.opts, *each.secondary_opts)}
            # What `parity run` does not know is an option of pytest's plug-in.
            and not (command == "run" and with_prefix(option) != option)
        )
    ]
    assert unknown == []


@pytest.mark.parametrize("path", [path for path in RECIPES if path.suffix == ".yaml"], ids=lambda path: path.name)
def test_recipes_are_yaml(path: Path) -> None:
    yaml = pytest.importorskip("yaml", reason="needs PyYAML, which pre-commit installs")
    content = yaml.safe_load(path.read_text())
    if path.name == "kuberay.yaml":
        spec = content["spec"]
        groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
        images = [each["image"] for group in groups for each in group["template"]["spec"]["containers"]]
        assert len(images) == 2
        assert len(set(images)) == 1, "every node has the same packages"
    else:
        shards = content["jobs"]["shard"]["strategy"]["matrix"]["shard"]
        command = content["jobs"]["shard"]["steps"][-2]["run"]
        assert shards == list(range(1, len(shards) + 1))
        assert f"/{len(shards)} " in command, "there are as many shards as the command says"


@pytest.mark.parametrize("path", [path for path in RECIPES if path.suffix == ".sh"], ids=lambda path: path.name)
def test_scripts_are_scripts(path: Path) -> None:
    checked = subprocess.run(["bash", "-n", str(path)], capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, b"")


class Machine:
    """A folder in which scripts are run with other programs in place of those that they call: each writes down how it
    was called, and some do more.
    """

    def __init__(self, folder: Path, programs: dict[str, str]) -> None:
        self._folder = folder
        self._log = folder / "log"
        for name, does in programs.items():
            path = folder / "bin" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f'#!/bin/bash\necho "{name} $*" >> {self._log}\n{does}\n')
            path.chmod(0o755)

    def run(self, script: str, *arguments: str, **environment: str) -> list[str]:
        """The calls, in an order that does not depend on which process was quicker."""
        path = f"{self._folder / 'bin'}:{os.environ['PATH']}"
        command = ["bash", str(DOCS / "cluster" / script), *arguments]
        ran = subprocess.run(
            command, cwd=self._folder, env={"PATH": path, **environment}, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return sorted(self._log.read_text().splitlines())


#: Runs what comes after its options, on this machine.
_SRUN = 'while [[ $1 == --* ]]; do shift; done; "$@"'


def test_the_job_of_slurm_starts_a_cluster_and_runs_on_it(tmp_path: Path) -> None:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "activate").write_text("")
    machine = Machine(tmp_path, {"scontrol": "printf 'a1\\na2\\na3\\n'", "srun": _SRUN, "ray": "", "parity": ""})
    calls = machine.run(
        "slurm.sh", SLURM_SUBMIT_DIR=str(tmp_path), SLURM_JOB_NODELIST="a[1-3]", SLURM_CPUS_PER_TASK="16",
        SLURM_JOB_NUM_NODES="3", PARITY_OPTIONS="--tier full",
    )  # fmt: skip
    called = [call for call in calls if not call.startswith("srun")]
    assert called == [
        "parity run --on a1:6379 --tier full",
        "ray start --address=a1:6379 --num-cpus=16 --block",
        "ray start --head --port=6379 --num-cpus=16 --include-dashboard=false --block",
        "ray status --address=a1:6379",
        "scontrol show hostnames a[1-3]",
    ]
    places = [call.partition(" bash")[0].partition(" ray")[0] for call in calls if call.startswith("srun")]
    assert places == [
        "srun --nodes=1 --ntasks=1 --nodelist=a1",
        "srun --nodes=2 --ntasks=2 --exclude=a1",
        "srun --overlap --nodes=1 --ntasks=1 --nodelist=a1",
    ]


@pytest.mark.slow
def test_a_run_on_a_host_is_started_and_brought_home(tmp_path: Path) -> None:
    host, here = tmp_path / "host", tmp_path / "here"
    parity = host / "parity" / ".venv" / "bin" / "parity"
    parity.parent.mkdir(parents=True)
    here.mkdir()
    # It is followed before it has begun to write, as on a host where Python takes seconds to start.
    parity.write_text('#!/bin/bash\nsleep 0.5; mkdir -p runs/1; echo "$@" > runs/1/run.json; echo done\n')
    parity.chmod(0o755)
    # What a host does is done in a folder; what is copied there is not looked at.
    copies = f'case "${{@: -1}}" in runs/) cp -r {host}/parity/runs . ;; esac'
    machine = Machine(here, {"ssh": f'cd {host} && bash -c "$2"', "rsync": copies})
    machine.run("ssh.sh", "start", "somewhere", "--tier", "full", "-k", "elu and opset9")
    calls = machine.run("ssh.sh", "follow", "somewhere", PARITY_LOOKS="0.1")
    assert (here / "runs" / "1" / "run.json").read_text() == "run --on ray --tier full -k elu and opset9\n"
    assert "rsync -a somewhere:parity/runs/ runs/" in calls
    sent = next(call for call in calls if call.endswith(" ./ somewhere:parity/"))
    assert "--exclude runs" in sent, "the runs of the host are not deleted"
    machine.run("ssh.sh", "start", "somewhere")
    machine.run("ssh.sh", "follow", "somewhere", PARITY_LOOKS="0.1")
    assert (here / "runs" / "1" / "run.json").read_text() == "run --on ray\n"


@pytest.mark.slow
def test_the_shards_of_a_ci_matrix_become_one_run(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml", reason="needs PyYAML, which pre-commit installs")
    jobs = yaml.safe_load((DOCS / "cluster" / "github.yaml").read_text())["jobs"]
    (tmp_path / "cases.py").write_text(
        "import torch\nfrom onnx_parity.harness.case import floats, op\n"
        "relu = op(torch.relu, floats(2, 3))\nceil = op(torch.ceil, floats(2, 3))\n"
        "wrong = op(torch.tanh, floats(40, 40), tolerance=1e-30, because='no rounding is within it')\n"
    )
    (tmp_path / "pyproject.toml").write_text(
        '[tool.parity]\ndeclarations = ["cases.py"]\nopsets = "17,18"\ndtypes = ["float32"]\ndevices = ["cpu"]\n'
    )
    parity = tmp_path / "bin" / "parity"
    parity.parent.mkdir()
    parity.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from onnx_parity.harness.cli import app; app()" "$@"\n')
    parity.chmod(0o755)
    environment = {**os.environ, "PATH": f"{parity.parent}:{os.environ['PATH']}", "PYTHONPATH": str(DOCS.parent)}

    def run(step: str) -> None:
        # As GitHub runs a step.
        ran = subprocess.run(["bash", "-e", "-c", step], cwd=tmp_path, env=environment, check=False)
        assert ran.returncode == 0, step

    commands = {name: [step["run"] for step in job["steps"] if "run" in step] for name, job in jobs.items()}
    _, shard = commands["shard"]
    for number in (1, 2):
        run(shard.replace("${{ matrix.shard }}/8", f"{number}/2").replace("--runs shards", f"--runs made-{number}"))
        # As the steps that upload and download an artifact do.
        (tmp_path / "shards").mkdir(exist_ok=True)
        (tmp_path / f"made-{number}").rename(tmp_path / "shards" / f"shard-{number}")
    for step in commands["merge"][1:]:
        run(step)
    records = read_records(tmp_path / "runs" / "last")
    assert Counter(record.status for record in records) == {Status.PASSED: 4, Status.FAILED: 2}
    assert (tmp_path / "runs" / "last" / "report" / "index.html").exists()
