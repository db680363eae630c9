"""What a node has, and how that differs from what the driver has."""

from __future__ import annotations

import platform
import socket
from collections.abc import Iterable, Mapping

from onnx_parity.harness.cluster.messages import Facts
from onnx_parity.harness.results.content import contents
from onnx_parity.harness.results.environment import package_versions, platform_name

HOW_TO_USE_IT = "Install the same there, or pass --mixed to use it nevertheless"


def facts(missing: Mapping[str, str], also: Iterable[str] = ()) -> Facts:
    """What this machine has, with the versions of further packages."""
    return Facts(socket.gethostname(), platform_name(), package_versions(also), contents(), dict(missing))


def differences(node: Facts, driver: Facts) -> tuple[str, ...]:
    """How a node differs from the driver, in words; empty if a cell has the same outcome on both."""
    found = [
        f"{package} {node.packages.get(package, 'is not installed')} (here {driver.packages.get(package, 'none')})"
        for package in sorted({*node.packages, *driver.packages})
        if node.packages.get(package) != driver.packages.get(package)
    ]
    if _system(node.platform) != _system(driver.platform):
        found.append(f"it is {node.platform} (here {driver.platform})")
    changed = sorted(
        file for file in {*node.contents, *driver.contents} if node.contents.get(file) != driver.contents.get(file)
    )
    if changed:
        files = "1 file" if len(changed) == 1 else f"{len(changed)} files"
        found.append(f"{files} of onnx-parity differ, such as {changed[0]}")
    return tuple(found)


def _system(name: str) -> tuple[str, ...]:
    """A platform without the release of its kernel, on which no outcome depends: `Linux`, `x86_64-with-glibc2.36`."""
    system, _, rest = name.partition("-")
    machine = platform.machine()
    return system, rest[rest.find(machine) :] if machine in rest else rest
