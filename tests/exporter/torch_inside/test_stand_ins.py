"""onnx, sympy and parts of onnx_ir are imported when they are first used, without a difference for their users."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fresh import run_after_torch

_ROOT = Path(__file__).parents[3]

_STATIC_THEN_DYNAMIC = """
import io, sys, torch, onnx_parity

x = torch.ones(2, 3)
for module in (torch.nn.ELU(), torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()), torch.nn.LSTM(3, 4)):
    onnx_parity.export(module, (x,))
    onnx_parity.export(module, (x,), dynamic_axes={"input": [0]})
    onnx_parity.export(module, (x,), io.BytesIO(), external_data=False)
late = ("sympy", "onnx", "google", "onnx_ir.passes", "torch.fx.experimental.symbolic_shapes")
assert not sys.modules.keys() & {*late}
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
import ml_dtypes, msgspec, numpy, onnx_ir
from onnx_parity.exporter.torch_inside.imports import Later, StandIn
from onnx_parity.exporter.torch_inside.slow_imports import _DEFERRED

names = [getattr(each, "__name__", each) for each in _DEFERRED]
early = (sys.modules.keys() - before) & {*names, "onnx", "google"}
assert not early, early
for package in (ml_dtypes, msgspec, numpy, onnx_ir):
    assert not [name for name, value in vars(package).items() if isinstance(value, (Later, StandIn))]
assert {"serde", "node", "to_proto", "Node"} <= {*dir(onnx_ir)} and {"finfo", "bfloat16"} <= {*dir(ml_dtypes)}
assert issubclass(ml_dtypes.finfo, numpy.finfo) and ml_dtypes.finfo is ml_dtypes._finfo.finfo
assert ml_dtypes.iinfo(ml_dtypes.int4).max == 7 and float(ml_dtypes.finfo("bfloat16").max) > 1e38
assert onnx_ir.DataType.FLOAT8E4M3FN.max == 448
assert onnx_ir.DEBUG is False and not hasattr(onnx_ir, "nothing")
assert onnx_ir.node is onnx_ir._convenience._constructors.node and onnx_ir.to_proto is onnx_ir.serde.to_proto
assert onnx_ir.ShardingSpec.__module__ == onnx_ir.Node.__module__ == "onnx_ir"
assert onnx_ir.load.__module__ == onnx_ir.save.__module__ == "onnx_ir"
for name in names:
    package, _, last = name.rpartition(".")
    if package in sys.modules:
        assert getattr(sys.modules[package], last) is sys.modules[name], name
    else:
        __import__(name)
import onnx
text = '<ir_version: 8, opset_import: ["": 17]> g (float x) => (float y) {y = Abs (x)}'
onnx.checker.check_model(onnx.parser.parse_model(text))
onnx.checker.check_model(onnx_ir.to_proto(onnx_ir.from_onnx_text(text)))
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

#: Threads import onnx, onnx_ir and ml_dtypes while another is importing the exporter.
_WHILE_IMPORTED = """
import sys, tempfile, threading, torch
sys.setswitchinterval(1e-4)
failures, stop = [], threading.Event()
taken = {}

def waiting_for(package):
    while not stop.is_set() and package not in sys.modules:
        pass

def of_onnx_ir():
    waiting_for("onnx_ir")
    from onnx_ir import ShardingSpec, convenience, load, node, save, to_proto
    import onnx_ir
    functions = [load, save, node, to_proto, onnx_ir.val, onnx_ir.tensor, convenience.extract]
    taken.update(classes=[ShardingSpec, onnx_ir.ShardedDim], functions=functions)

def of_onnx():
    waiting_for("onnx_ir")
    from onnx import ONNX_ML, helper, parser
    import onnx.reference
    from onnx.checker import check_model
    model = parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float x) => (float y) {y = Abs (x)}')
    check_model(model)
    onnx.shape_inference.infer_shapes(model)
    taken.update(ml=ONNX_ML, made=helper.make_node("Abs", ["x"], ["y"]).op_type, of=onnx.onnx_cpp2py_export.defs)

def of_dtypes():
    waiting_for("ml_dtypes")
    from ml_dtypes import finfo
    import ml_dtypes
    taken.update(finfo=finfo, greatest=float(ml_dtypes.finfo("bfloat16").max), int4=ml_dtypes.iinfo(ml_dtypes.int4).max)

def seen(use):
    try:
        use()
    except BaseException as error:
        failures.append(error)

threads = [threading.Thread(target=seen, args=[use], daemon=True) for use in (of_onnx_ir, of_onnx, of_dtypes)]
for thread in threads:
    thread.start()
import onnx_parity.exporter
stop.set()
for thread in threads:
    thread.join(60)
    assert not thread.is_alive()
assert not failures, failures
import ml_dtypes, onnx
assert all(isinstance(each, type) for each in taken["classes"]) and all(map(callable, taken["functions"]))
assert taken["ml"] is True and taken["made"] == "Abs" and taken["of"] is sys.modules["onnx.onnx_cpp2py_export.defs"]
assert taken["finfo"] is ml_dtypes.finfo and taken["greatest"] > 1e38 and taken["int4"] == 7
program = onnx_parity.export(torch.nn.ReLU(), (torch.ones(2),))
onnx.checker.check_model(program.model_proto)
"""

#: Threads use what is imported late at the same time, after the exporter was imported.
_AFTERWARDS = """
import threading, torch, onnx_parity.exporter, onnx_ir, ml_dtypes
errors, gate = [], threading.Barrier(5)
uses = [
    lambda: onnx_ir.to_proto(onnx_ir.Model(onnx_ir.Graph([], [], nodes=[]), ir_version=8)),
    lambda: onnx_ir.convenience.convert_attribute("alpha", 1.0),
    lambda: onnx_ir.tensor([1.0]),
    lambda: onnx_ir.load and onnx_ir.passes.PassManager and onnx_ir.schemas.OpSignature,
    lambda: __import__("onnx").checker.check_model and ml_dtypes.finfo(ml_dtypes.bfloat16).max,
]

def run(use):
    gate.wait()
    try:
        use()
    except BaseException as error:
        errors.append(repr(error))

threads = [threading.Thread(target=run, args=[use], daemon=True) for use in uses]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(60)
    assert not thread.is_alive()
assert not errors, errors
"""

#: Another thread began to import onnx_ir before this one imports the exporter.
_BEGUN_BEFORE = """
import sys, threading, torch
found = {}

def user():
    from onnx_ir import ShardingSpec, load, node, to_proto
    found.update(load=load, node=node, to_proto=to_proto, spec=ShardingSpec)

thread = threading.Thread(target=user)
thread.start()
while "onnx_ir" not in sys.modules:
    pass
import onnx_parity.exporter
thread.join(60)
assert found and all(type(each).__name__ in ("function", "type", "ABCMeta") for each in found.values()), found
import onnx
assert onnx.ModelProto and onnx_parity.export(torch.nn.ReLU(), (torch.ones(2),)).model_proto.graph.node
"""

#: Aliases of types that name classes of onnx.
_ALIASES = """
import sys, typing, onnx_parity.exporter, onnx_ir
alias = onnx_ir._convenience.SupportedAttrTypes
assert "onnx" not in sys.modules and "onnx.TensorProto" in str(alias)
import onnx
assert onnx.TensorProto in typing.get_args(typing.get_type_hints(onnx_ir._convenience.convert_attribute)["attr"])
assert onnx_ir._convenience.onnx.TensorProto is onnx.TensorProto
made = onnx_ir._convenience.convert_attribute("value", onnx.helper.make_tensor("one", 1, [1], [2.0]))
assert made.type == onnx_ir.AttributeType.TENSOR and made.value.numpy().tolist() == [2.0]
"""

#: Models for several devices, which onnx_ir reads by what it has taken out of a module that is imported late.
_DEVICES = """
import onnx, onnx_parity.exporter, onnx_ir
from onnx_ir.serde import serialize_model
text = '<ir_version: 11, opset_import: ["": 24]> g (float[4] x) => (float[4] y) {y = Abs (x)}'
model = onnx.parser.parse_model(text)
model.configuration.add(name="two", num_devices=2)
sharding = model.graph.node[0].device_configurations.add(configuration_id="two").sharding_spec.add(tensor_name="x")
sharding.device.extend([0, 1])
read = onnx_ir.from_proto(model)
(configuration,) = serialize_model(read).graph.node[0].device_configurations
assert configuration.configuration_id == "two" and configuration.sharding_spec[0].device == [0, 1]
assert onnx_ir.serde._multi_device.ShardingSpec is onnx_ir.ShardingSpec
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
from onnx_parity.exporter.torch_inside.imports import StandIn, standing_in

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
    "afterwards": _AFTERWARDS,
    "begun before": _BEGUN_BEFORE,
    "aliases": _ALIASES,
    "devices": _DEVICES,
    "configuration": _CONFIGURATION,
    "part of a package": _PART,
}


#: How a program begins that imports torch before anything of this project.
_TORCH_FIRST = re.compile(r"\nimport (\w+, )*torch\b")


def run_alone(program: str) -> subprocess.CompletedProcess[str]:
    run = [sys.executable, "-c", program]
    return subprocess.run(run, capture_output=True, text=True, check=False, cwd=_ROOT, timeout=300)


_SLOW = frozenset({
    "before", "from packages", "aliases", "devices", "configuration", "begun before", "by threads", "packages",
    "by others",
})  # fmt: skip


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(program, id=name, marks=[pytest.mark.slow] if name in _SLOW else [])
        for name, program in _PROGRAMS.items()
    ],
)
def test_modules_are_imported_when_they_are_used(program: str) -> None:
    done = run_after_torch(program) if _TORCH_FIRST.match(program) else run_alone(program)
    assert done.returncode == 0, done.stderr[-2000:]


_IMPORT_DURING_AN_END = """
import sys, threading
from onnx_parity.exporter.torch_inside.imports import standing_in

class Waiting:
    def find_spec(self, fullname, path, target=None):
        if fullname == "wave":
            asked.set()
            assert ended.wait(60)

def use():
    try:
        import wave
    except ImportError as error:
        failures.append(error)

asked, ended, failures = threading.Event(), threading.Event(), []
sys.meta_path.insert(-1, Waiting())
thread = threading.Thread(target=use)
with standing_in("chunk"):
    thread.start()
    assert asked.wait(60)
ended.set()
thread.join(60)
assert "wave" in sys.modules and not failures, failures
"""


def test_an_import_finds_its_module_while_placeholders_end_in_another_thread() -> None:
    done = run_after_torch(_IMPORT_DURING_AN_END)
    assert done.returncode == 0, done.stderr[-2000:]
