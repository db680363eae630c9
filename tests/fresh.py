"""Runs Python programs in processes of their own that have imported torch, and nothing else of what a program needs.

Importing torch takes two seconds of processor time, most of what such a program takes. The processes are forked from
one that has done nothing else: what a program imports, and when, is as in an interpreter that begins with
`import torch`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

__all__ = ["run_after_torch"]

_ROOT = Path(__file__).parents[1]
#: Forks for each line, and prints how the process has ended. The process goes on below the loop.
_SERVER = """
import json, os, sys, torch
for line in sys.stdin:
    if not (child := os.fork()):
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
program, arguments, *printed = json.loads(line)
for number, (name, flags) in enumerate([(os.devnull, os.O_RDONLY), *((name, os.O_WRONLY) for name in printed)]):
    os.dup2(os.open(name, flags), number)
sys.argv[1:] = arguments
sys.modules["__main__"] = type(sys)("__main__")
exec(compile(program, "<string>", "exec"), vars(sys.modules["__main__"]))
"""


def run_after_torch(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `python -c program`, which may import torch first, from the root of the clone."""
    server = _server()
    assert server.stdin is not None and server.stdout is not None
    with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
        print(json.dumps([program, arguments, out.name, err.name]), file=server.stdin, flush=True)
        code = int(server.stdout.readline())
        return subprocess.CompletedProcess(program, code, out.read().decode(), err.read().decode())


@cache
def _server() -> subprocess.Popen[str]:
    """It ends with this process, whose end closes its input."""
    command = [sys.executable, "-W", "ignore", "-c", _SERVER]
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT, env=environment
    )
