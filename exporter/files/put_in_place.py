"""Moves a model and its files of weights to their final names, so that no model ever refers to the wrong weights.

Only one file can be replaced at a time, but the old and the new model refer to files of the same names. Therefore, if
files are replaced that an old model may refer to, this is the order:

1. A copy of the new weights is written under unused names. A model that refers to these names replaces the old model.
   From then on no model refers to the old weights.
2. The new weights replace the old ones under their final names.
3. The model that refers to the final names replaces the one that refers to the copy. The copy is removed.

After each step the file of the model can be loaded: it is either the old model with the old weights, or the new one
with the new weights. If a step fails, the steps before it are undone in reverse order.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from onnx_parity.exporter.errors import WriteError

__all__ = ["NewFile", "name_aside", "put_in_place"]

#: Larger weights are not copied but get a hard link, which takes no space. onnx refuses to load a file with two links
#: (onnxruntime does not), but a user can only see one if the process is killed between the steps.
_COPIED_UP_TO = 2**30


class NewFile(msgspec.Struct, frozen=True):
    """A file that was written completely under a temporary name, and its final name."""

    aside: Path
    final: Path


def name_aside(final: Path) -> Path:
    """An unused name in the folder of `final`."""
    return final.with_name(f".{final.name}.{secrets.token_hex(4)}")


def put_in_place(model: NewFile, weights: Sequence[NewFile], referring_to: Callable[[Mapping[str, str]], Path]) -> None:
    """Rename the files to their final names. If one of them cannot be renamed, none is.

    `referring_to` writes the model once more, to a new file, and returns its path. It takes new names for files of
    weights, by their final names; that model refers to the new ones.
    """
    changes = _Changes(model.final)
    try:
        if os.path.lexists(model.final) and any(os.path.lexists(each.final) for each in weights):
            copies = {each.final.name: changes.temporary(_copy(each.aside, each.final)) for each in weights}
            interim = changes.temporary(referring_to({name: copy.name for name, copy in copies.items()}))
            changes.keep(model.final)
            changes.replace(interim, model.final)
        for each in weights:
            changes.move_away(each.final)
            changes.replace(each.aside, each.final)
        os.replace(model.aside, model.final)
    except BaseException as error:
        changes.undo(error)
        raise
    changes.remove_temporary()


class _Changes(msgspec.Struct):
    """The changes so far, and how to undo them."""

    target: Path
    _undo: list[Callable[[], object]] = []
    _temporary: list[Path] = []

    def temporary(self, path: Path) -> Path:
        """Register a file that is removed at the end."""
        self._temporary.append(path)
        return path

    def keep(self, path: Path) -> None:
        """Give a file a second name, so that it can be restored after it was replaced."""
        kept = self.temporary(name_aside(path))
        try:
            os.link(path, kept)
        except OSError:  # The file system does not support hard links, or the file belongs to another user.
            shutil.copy2(path, kept)
        self._undo.append(lambda: os.replace(kept, path))

    def move_away(self, path: Path) -> None:
        """Rename a file, if it exists. A symbolic link is renamed itself."""
        if not os.path.lexists(path):
            return
        if path.is_dir():
            raise IsADirectoryError(None, f"{path} is a folder")
        kept = self.temporary(name_aside(path))
        # Registered before the file is renamed, because an interrupt may come at any time.
        self._undo.append(lambda: os.replace(kept, path) if os.path.lexists(kept) else None)
        os.rename(path, kept)

    def replace(self, aside: Path, final: Path) -> None:
        if not os.path.lexists(final):
            self._undo.append(lambda: final.unlink(missing_ok=True))
        os.replace(aside, final)

    def undo(self, error: BaseException) -> None:
        """Undo all changes. If that fails too, no file is removed, and the error lists the remaining files."""
        while self._undo:
            try:
                self._undo[-1]()
            except OSError as failed:
                left = ", ".join(str(path) for path in self._temporary if os.path.lexists(path))
                raise WriteError(
                    f"cannot write the model to {self.target}: {error}. The old files cannot be restored either: "
                    f"{failed}. These files contain the old data, or weights that {self.target} may refer to: {left}"
                ) from error
            self._undo.pop()
        self.remove_temporary()

    def remove_temporary(self) -> None:
        for path in self._temporary:
            # A file that cannot be removed has no effect on the model.
            with suppress(OSError):
                path.unlink(missing_ok=True)


def _copy(file: Path, final: Path) -> Path:
    """A copy of a file, under a new name in the folder of `final`."""
    copy = name_aside(final)
    if file.stat().st_size > _COPIED_UP_TO:
        with suppress(OSError):  # The file system may not support hard links.
            os.link(file, copy)
            return copy
    try:
        shutil.copyfile(file, copy)
    except BaseException:
        copy.unlink(missing_ok=True)
        raise
    return copy
