"""Measurements that are kept in a file, so that an invocation that was stopped goes on where it ended."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import msgspec
import typer

T = TypeVar("T")

#: The option of commands that measure for long.
KeepOption = Annotated[
    Path | None,
    typer.Option(
        help="A file of JSON lines. What it has is not measured again, and what is measured is added to it. "
        "Delete it when the exporter, a package or the machine has changed.",
        dir_okay=False,
    ),
]


class Kept(Generic[T]):
    """Values by their keys. With a path, each is also a line of that file: `{"key": "bert, static", "value": ...}`.

    `kind` is the type of the values; it may be a union, which is not a type to a type checker.
    """

    def __init__(self, path: Path | None, kind: Any) -> None:
        self._path = path
        self._values: dict[str, T] = {}
        if path is None:
            return
        if not path.absolute().parent.is_dir():
            raise typer.BadParameter(f"{path} cannot be written: name a file in a folder that exists")
        try:
            for line in path.read_bytes().splitlines() if path.exists() else ():
                read = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
                self._values[msgspec.json.decode(read["key"], type=str)] = msgspec.json.decode(read["value"], type=kind)
        except (msgspec.DecodeError, KeyError) as error:
            raise typer.BadParameter(f"{path} holds other measurements than this command's: {error}") from error

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __getitem__(self, key: str) -> T:
        return self._values[key]

    def add(self, key: str, value: T) -> None:
        self._values[key] = value
        if self._path is not None:
            with self._path.open("ab") as file:
                file.write(msgspec.json.encode({"key": key, "value": value}) + b"\n")
