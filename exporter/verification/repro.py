"""The script of a bundle: what belongs to the failure, then how the runtime runs a model, then the comparison.

The latter two are files of this project that need nothing of it, so that what the script does is what the harness does.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from onnx_parity.exporter.arrays import Array, Fed
from onnx_parity.exporter.verification import repro_onnx_reference, repro_onnxruntime, repro_script

__all__ = ["OF_ONNXRUNTIME", "OF_ONNX_REFERENCE", "Runner", "Stored", "script_of", "script_without_model"]

_SCRIPT = '''"""{title}

{needs}Exit codes: 0 if it holds now; 1 if it does not.
"""

from __future__ import annotations

{imports}

HERE = Path(__file__).resolve().parent
DATA = np.load(HERE / "data.npz")
INPUTS = {inputs}
#: For each output: torch's result, the centre of errors and the tolerance, and where the sign of zero matters.
EXPECTED = {expected}


def main() -> int:
    print(str(__doc__).partition("\\n\\n")[0] + "\\n")
    outputs = load(HERE / "model.onnx"{variant})(INPUTS)
    return report(outputs, EXPECTED, floor={floor})


{pieces}


if __name__ == "__main__":
    sys.exit(main())
'''
#: What every script imports.
_IMPORTS = "import sys\nfrom pathlib import Path\nimport numpy as np\n"
_WITHOUT_MODEL = '''"""{title}

There is no model, because the export failed. In the folder of the declarations, this exports it again.
"""

import subprocess
import sys

print(str(__doc__).partition("\\n\\n")[0])
print("\\nThere is no model. In the folder of the declarations, this exports it again:", flush=True)
sys.exit(subprocess.call([sys.executable, "-m", "pytest", *{again!r}]))
'''


@dataclass(frozen=True, slots=True)
class Runner:
    """How a script runs a model."""

    #: A file with a function `load`, which needs nothing of this project.
    source: Path
    #: What `load` is given besides the model, if anything.
    variant: str = ""
    #: What has to be installed, as pip is told: `onnxruntime==1.31.1`.
    needs: tuple[str, ...] = ()


OF_ONNXRUNTIME = Runner(Path(repro_onnxruntime.__file__))
OF_ONNX_REFERENCE = Runner(Path(repro_onnx_reference.__file__))


@dataclass(slots=True)
class Stored:
    """The arrays of a bundle by name, and each as the script spells it."""

    arrays: dict[str, Array] = field(default_factory=dict)

    def keep(self, name: str, array: Array | None) -> str:
        if array is None:
            return "None"
        spelled = f'DATA["{name}"]'
        # What numpy lacks, files of its own do not have either.
        if array.dtype.kind == "V" or array.dtype.type.__module__ == "ml_dtypes":
            self.arrays[name] = np.asarray(array, order="C").view(f"u{array.itemsize}")
            return f"{spelled}.view(ml_dtypes.{array.dtype.name})"
        self.arrays[name] = array
        return spelled

    def keep_fed(self, name: str, fed: Fed) -> str:
        if isinstance(fed, list):
            return f"[{', '.join(self.keep(f'{name}_{number}', item) for number, item in enumerate(fed))}]"
        return self.keep(name, fed)


def script_of(
    title: str, runner: Runner, inputs: Mapping[str, str], outputs: Sequence[Sequence[str]], floor: float | None
) -> str:
    """The text of a script."""
    files = (runner.source, Path(repro_script.__file__))
    parts = [_taken_apart(path.read_text("utf-8")) for path in files]
    spelled = (*inputs.values(), *(part for output in outputs for part in output))
    also = "import ml_dtypes\n" if any("ml_dtypes." in each for each in spelled) else ""
    imports = [*ast.parse(f"{_IMPORTS}{also}").body, *(node for found, _ in parts for node in found)]
    needs = f"To run it: pip install {' '.join(('numpy', *runner.needs))}\n" if runner.needs else ""
    return _SCRIPT.format(
        title=_in_docstring(title),
        needs=needs,
        imports=_in_order(imports),
        inputs=_lines("{", (f"{name!r}: {spelled}" for name, spelled in inputs.items()), "}"),
        expected=_lines("[", (f"({', '.join(parts)})" for parts in outputs), "]"),
        variant=f", {runner.variant!r}" if runner.variant else "",
        floor=floor,
        pieces="\n\n\n".join(body for _, body in parts),
    )


def script_without_model(title: str, again: Sequence[str]) -> str:
    return _WITHOUT_MODEL.format(title=_in_docstring(title), again=tuple(again))


def _in_docstring(text: str) -> str:
    lines = (line for line in text.splitlines() if line.strip())
    return "\n".join(lines).replace("\\", "\\\\").replace('"""', "'''")


def _lines(begin: str, items: Iterable[str], end: str) -> str:
    lines = [f"    {item},\n" for item in items]
    return f"{begin}\n{''.join(lines)}{end}" if lines else begin + end


def _taken_apart(source: str) -> tuple[list[ast.Import | ast.ImportFrom], str]:
    """The imports of a file, and what stands below them."""
    imports = [node for node in ast.parse(source).body if isinstance(node, (ast.Import, ast.ImportFrom))]
    # The first is that of `annotations`, which a script has once.
    below = source.splitlines()[imports[-1].end_lineno :]
    return imports[1:], "\n".join(below).strip()


def _in_order(imports: Iterable[ast.stmt]) -> str:
    """One line for each module, the standard library's first."""
    names: dict[str, set[str]] = defaultdict(set)
    plain = {ast.unparse(node) for node in imports if isinstance(node, ast.Import)}
    for node in imports:
        if isinstance(node, ast.ImportFrom):
            names[str(node.module)] |= {alias.name for alias in node.names}
    of_names = [f"from {module} import {', '.join(sorted(names[module]))}" for module in sorted(names)]
    foreign = sorted(line for line in plain if line.split()[1] not in sys.stdlib_module_names)
    return "\n".join([*sorted(plain - set(foreign)), *of_names, "", *foreign])
