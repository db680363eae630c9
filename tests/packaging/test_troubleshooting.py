"""docs/troubleshooting.md: each error and warning has an example that raises it, as is shown, and a way out."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import onnx_parity
import onnx_parity.exporter
import start
from onnx_parity import errors

TEXT = (Path(start.__file__).parent / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
_BEGINNING, *_SECTIONS = re.split(r"^## ", TEXT, flags=re.MULTILINE)
#: A program, and the message that is shown below it, if it is not a way out.
_EXAMPLE = re.compile(r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
SECTIONS = {section.partition("\n")[0]: _EXAMPLE.findall(section) for section in _SECTIONS}
pytestmark = pytest.mark.usefixtures("registry_as_it_was")


def public_classes() -> Iterator[type]:
    """The errors and warnings by their own names, those that others are kinds of and that no export raises left out."""
    for module in (onnx_parity, errors):
        for name in module.__all__:
            found = getattr(module, name)
            if inspect.isclass(found) and issubclass(found, Exception) and found not in _RAISED_BY_NO_EXPORT:
                yield found


_RAISED_BY_NO_EXPORT = (errors.ExportError, errors.Unsupported)


def outcome(program: str, folder: Path, names: dict[str, object]) -> str:
    """The class and the message of what a program raises, or of its first warning of ours; "" if there is neither."""
    folder.mkdir()
    file = folder / "example.py"
    file.write_text(program)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            exec(compile(program, str(file), "exec"), names)
        except onnx_parity.ExportError as error:
            found = f"{type(error).__name__}: {error}"
        else:
            ours = [each for each in caught if issubclass(each.category, errors.OnnxExporterWarning)]
            found = f"{ours[0].category.__name__}: {ours[0].message}" if ours else ""
    return in_one_line(found.replace(f"{folder}/", "").replace(f"{folder.parent}/", ""))


def in_one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("heading", SECTIONS)
def test_the_examples_of_a_section_say_what_is_shown(
    heading: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "example"}
    for begin, _ in _EXAMPLE.findall(_BEGINNING):
        exec(begin, names)
    for number, (program, message) in enumerate(SECTIONS[heading]):
        # Each in a file of its own, whose lines Python keeps.
        printed = outcome(program, tmp_path / str(number), names)
        if not message:
            assert printed == "", program
            continue
        assert message.startswith(f"{heading}: ")
        pattern = ".*?".join(map(re.escape, in_one_line(message).split("...")))
        assert re.match(pattern, printed), printed


def test_every_error_has_a_section_with_an_example() -> None:
    shown = {heading for heading, examples in SECTIONS.items() if any(message for _, message in examples)}
    assert shown == {*SECTIONS} == {each.__name__ for each in public_classes()}


def test_every_error_and_its_other_names_are_on_the_page() -> None:
    for module in pkgutil.walk_packages(onnx_parity.exporter.__path__, "onnx_parity.exporter."):
        importlib.import_module(module.name)
    kinds = {each.__name__ for each in _kinds_of(errors.ExportError) if each.__name__.endswith("Error")}
    names = {name for name in errors.__all__ if issubclass(getattr(errors, name), Exception)}
    assert {name for name in kinds | names if name not in TEXT} == set()


def _kinds_of(base: type[Exception]) -> Iterator[type[Exception]]:
    for each in base.__subclasses__():
        yield each
        yield from _kinds_of(each)
