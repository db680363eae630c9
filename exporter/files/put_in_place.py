"""Puts a model and its files of weights in place of older ones; at no moment does a model refer to the wrong weights.

Only one file can be replaced at a time, and both the old model and the new one refer to the same names. So, where files
of weights are replaced under a model that may refer to them, this is the order:

1. A second copy of the new weights lies under names that nobody else uses, and a model that refers to these names
   replaces the old model. The old weights are now referred to by nobody.
2. The new weights replace the old ones under their own names.
3. The model that refers to those names replaces the one that refers to the copy. The copy is removed.

After each of these steps the file of the model can be loaded: it is the old model with the old weights, or the new one
with the new weights. Where a step fails, those before it are taken back, the last one first.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from onnx_parity.exporter.errors import WriteError

__all__ = ["NewFile", "name_aside", "put_in_place"]

#: Weights of more bytes are not copied: they get a second name, which takes no space. onnx refuses to load a file that
#: has two names (onnxruntime does not), which can only be met if the process is killed between the steps.
_COPIED_UP_TO = 2**30


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that is complete under another name."""

    aside: Path
    final: Path


def name_aside(final: Path) -> Path:
    """A name in the folder of `final` that nobody uses."""
    return final.with_name(f".{final.name}.{secrets.token_hex(4)}")


def put_in_place(model: NewFile, weights: Sequence[NewFile], referring_to: Callable[[Mapping[str, str]], Path]) -> None:
    """Rename the files to their final names: all of them, or, if one cannot be renamed, none.

    `referring_to` writes the model once more, to a new file whose path it returns. That model refers to other files of
    weights, which it is given by the names of the final ones.
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


@dataclass(slots=True)
class _Changes:
    """What was done so far, and how to take it back."""

    target: Path
    _undo: list[Callable[[], object]] = field(default_factory=list)
    _temporary: list[Path] = field(default_factory=list)

    def temporary(self, path: Path) -> Path:
        """Have a file removed at the end."""
        self._temporary.append(path)
        return path

    def keep(self, path: Path) -> None:
        """Give a file a second name, so that it can be put back after it was replaced."""
        kept = self.temporary(name_aside(path))
        try:
            os.link(path, kept)
        except OSError:  # The file system has no second names, or the file is somebody else's.
            shutil.copy2(path, kept)
        self._undo.append(lambda: os.replace(kept, path))

    def move_away(self, path: Path) -> None:
        """Rename a file, if there is one. A symbolic link is renamed itself."""
        if not os.path.lexists(path):
            return
        if path.is_dir():
            raise IsADirectoryError(None, f"{path} is a folder")
        kept = self.temporary(name_aside(path))
        # Before it is done: an interrupt may come at once.
        self._undo.append(lambda: os.replace(kept, path) if os.path.lexists(kept) else None)
        os.rename(path, kept)

    def replace(self, aside: Path, final: Path) -> None:
        if not os.path.lexists(final):
            self._undo.append(lambda: final.unlink(missing_ok=True))
        os.replace(aside, final)

    def undo(self, error: BaseException) -> None:
        """Take back what was done. Where that fails too, nothing is removed, and the error says what lies where."""
        while self._undo:
            try:
                self._undo[-1]()
            except OSError as failed:
                left = ", ".join(str(path) for path in self._temporary if os.path.lexists(path))
                raise WriteError(
                    f"cannot write the model to {self.target}: {error}. Nor can what was there be put back: {failed}. "
                    f"These files hold what was there, and weights that {self.target} may refer to now: {left}"
                ) from error
            self._undo.pop()
        self.remove_temporary()

    def remove_temporary(self) -> None:
        for path in self._temporary:
            # A file that cannot be removed does no harm to the model.
            with suppress(OSError):
                path.unlink(missing_ok=True)


def _copy(file: Path, final: Path) -> Path:
    """A file of the same content, under a new name beside `final`."""
    copy = name_aside(final)
    if file.stat().st_size > _COPIED_UP_TO:
        with suppress(OSError):  # A file system that has no second names.
            os.link(file, copy)
            return copy
    try:
        shutil.copyfile(file, copy)
    except BaseException:
        copy.unlink(missing_ok=True)
        raise
    return copy
