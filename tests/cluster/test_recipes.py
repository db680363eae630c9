"""The recipes of docs/cluster: they are well-formed, and the commands in them have the options that they use."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from typer.main import get_command

from onnx_parity.harness.cli import app
from onnx_parity.harness.pytest_plugin.options import with_prefix

DOCS = Path(__file__).parents[2] / "docs"
RECIPES = sorted((DOCS / "cluster").iterdir())
#: `parity`, its subcommand, and the rest of the line.
_COMMAND = re.compile(r"(?<![\w:./-])parity ([a-z-]+)((?: [^`\n|&;\"]+)?)")


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
    commands = get_command(app).commands  # type: ignore[attr-defined]
    used = used_options(path.read_text())
    assert used
    unknown = [
        (command, option)
        for command, option in used
        if command not in commands
        or (
            option not in {name for each in commands[command].params for name in (*each.opts, *each.secondary_opts)}
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


def test_the_script_for_slurm_is_a_script() -> None:
    checked = subprocess.run(["bash", "-n", str(DOCS / "cluster" / "slurm.sh")], capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, b"")
