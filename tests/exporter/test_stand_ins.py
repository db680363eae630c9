"""sympy and parts of onnx are imported when they are first used, without a difference for their users."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]

_STATIC_THEN_DYNAMIC = """
import sys, torch, onnx_parity

x = torch.ones(2, 3)
for module in (torch.nn.ELU(), torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()), torch.nn.LSTM(3, 4)):
    onnx_parity.export(module, (x,))
    onnx_parity.export(module, (x,), dynamic_axes={"input": [0]})
assert "sympy" not in sys.modules and "torch.fx.experimental.symbolic_shapes" not in sys.modules
import sympy, onnx_ir._core
assert onnx_ir._core.sympy.Symbol is sympy.Symbol
"""

_BY_OTHERS = """
import onnx_parity, sys
import sympy.core.numbers
import onnx_ir
assert sympy.Integer is sympy.core.numbers.Integer and len(dir(sympy)) > 500
assert onnx_ir.SymbolicDim("a + 1") + 1 == onnx_ir.SymbolicDim("a + 2")
assert onnx_ir._core.sympy.Symbol is sympy.Symbol
assert "onnx_ir._symbolic_shapes" in sys.modules
"""

_BEFORE = """
import sympy, onnx_parity.exporter, onnx_ir
assert onnx_ir._core.sympy is sympy
"""

_PACKAGES = """
import sys, torch
before = set(sys.modules)
import onnx_parity.exporter
import ml_dtypes, msgspec, numpy, onnx, onnx_ir
from onnx_parity.exporter.startup.deferred_imports import Later, StandIn
from onnx_parity.exporter.startup.slow_imports import _DEFERRED

names = [getattr(each, "__name__", each) for each in _DEFERRED]
# protobuf's own implementation in Python, which some library has asked for, needs its modules at once.
early = (sys.modules.keys() - before) & {name for name in names if not name.startswith("google")}
assert not early, early
for package in (ml_dtypes, msgspec, numpy, onnx, onnx_ir):
    assert not [name for name, value in vars(package).items() if isinstance(value, (Later, StandIn))]
assert {"checker", "ONNX_ML", "ModelProto"} <= {*dir(onnx)} and {"finfo", "bfloat16"} <= {*dir(ml_dtypes)}
assert issubclass(ml_dtypes.finfo, numpy.finfo) and ml_dtypes.finfo is ml_dtypes._finfo.finfo
assert ml_dtypes.iinfo(ml_dtypes.int4).max == 7 and float(ml_dtypes.finfo("bfloat16").max) > 1e38
assert onnx_ir.DataType.FLOAT8E4M3FN.max == 448
assert onnx.ONNX_ML is True and onnx.IR_VERSION and not hasattr(onnx, "nothing")
assert onnx_ir.ShardingSpec.__module__ == onnx_ir.Node.__module__ == "onnx_ir"
assert onnx_ir.load.__module__ == onnx_ir.save.__module__ == "onnx_ir"
for name in names:
    package, _, last = name.rpartition(".")
    if package in sys.modules:
        assert getattr(sys.modules[package], last) is sys.modules[name], name
    else:
        __import__(name)
text = '<ir_version: 8, opset_import: ["": 17]> g (float x) => (float y) {y = Abs (x)}'
onnx.checker.check_model(onnx.parser.parse_model(text))
"""

_FROM_PACKAGES = """
import onnx_parity.exporter
from onnx import *
from onnx import checker as from_onnx
import onnx.checker
assert checker is from_onnx is onnx.checker and callable(checker.check_model)
from onnx_ir import *
assert callable(load) and ShardingSpec is __import__("onnx_ir").ShardingSpec
"""

#: One thread's export asks for sympy while another's is half-way through importing it.
_BY_THREADS = """
import threading, time, torch, onnx_parity
failures = []

def export(module, after, axes):
    time.sleep(after)
    try:
        onnx_parity.export(module, (torch.rand(4, 6),), dynamic_axes=axes)
    except Exception as error:
        failures.append(error)

class View(torch.nn.Module):
    def forward(self, x):
        return x.view(2, 12)

threads = [
    threading.Thread(target=export, args=(View(), 0, None), daemon=True),
    threading.Thread(target=export, args=(torch.nn.ELU(), 0.03, {"input": [0]}), daemon=True),
]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(60)
    assert not thread.is_alive()
assert not failures, failures
"""

#: A thread imports onnx and onnx_ir while another is importing the exporter.
_WHILE_IMPORTED = """
import sys, threading, torch
sys.setswitchinterval(1e-4)
found, stop = {}, threading.Event()

def use():
    while not stop.is_set() and "onnx_ir" not in sys.modules:
        pass
    from onnx_ir import ShardingSpec, load, save
    from onnx.checker import check_model
    from onnx import ONNX_ML, helper, parser
    found.update(classes=[ShardingSpec], ml=ONNX_ML)
    found.update(functions=[load, save, check_model, helper.make_node, parser.parse_model])

thread = threading.Thread(target=use, daemon=True)
thread.start()
import onnx_parity.exporter
stop.set()
thread.join(60)
assert isinstance(found["classes"][0], type) and all(map(callable, found["functions"])) and found["ml"] is True
"""

#: Two threads find at the same time that the configuration of dynamo has to be loaded.
_CONFIGURATION = """
import importlib.util, threading, torch, onnx_parity
find, failures, both = importlib.util.spec_from_file_location, [], threading.Barrier(2)

def found_by_both(name, *args, **kwargs):
    if name == "torch._dynamo.config":
        try:
            both.wait(1)
        except threading.BrokenBarrierError:
            pass
    return find(name, *args, **kwargs)

def export():
    try:
        onnx_parity.export(torch.nn.LSTM(3, 4), (torch.rand(5, 2, 3),))
    except Exception as error:
        failures.append(error)

importlib.util.spec_from_file_location = found_by_both
threads = [threading.Thread(target=export, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(60)
    assert not thread.is_alive()
assert both.broken and not failures, failures
"""

#: A module of a package is imported while the package has a placeholder: not under the lock of all imports, where other
#: threads would wait.
_PART = """
import pathlib, sys, tempfile, torch, onnx_parity.exporter
from onnx_parity.exporter.startup.deferred_imports import StandIn, standing_in

with tempfile.TemporaryDirectory() as folder:
    package = pathlib.Path(folder, "parity_package")
    package.mkdir()
    (package / "__init__.py").write_text("import _imp; held = _imp.lock_held()")
    (package / "part.py").write_text("import _imp; held = _imp.lock_held()")
    sys.path.insert(0, folder)
    with standing_in("parity_package"):
        import parity_package
        assert type(parity_package) is StandIn
        import importlib.util
        assert importlib.util.find_spec("parity_package.part") and not importlib.util.find_spec("parity_package.no")
        assert sys.modules["parity_package"] is parity_package
        import parity_package.part as part
    assert not part.held and not parity_package.held
    assert type(sys.modules["parity_package"]).__name__ == "module" and sys.modules["parity_package"].part is part
    assert part.__spec__.loader is part.__loader__ and part.__spec__.origin == part.__file__
"""


_PROGRAMS = {
    "static, then dynamic": _STATIC_THEN_DYNAMIC,
    "by others": _BY_OTHERS,
    "before": _BEFORE,
    "by threads": _BY_THREADS,
    "packages": _PACKAGES,
    "from packages": _FROM_PACKAGES,
    "while imported": _WHILE_IMPORTED,
    "configuration": _CONFIGURATION,
    "part of a package": _PART,
}


@pytest.mark.parametrize("program", _PROGRAMS.values(), ids=_PROGRAMS)
def test_modules_are_imported_when_they_are_used(program: str) -> None:
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, capture_output=True, text=True, check=False, cwd=_ROOT, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
