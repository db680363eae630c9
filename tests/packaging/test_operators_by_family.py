"""All that is known of an operator lies in the folder of one family."""

from __future__ import annotations

from collections import defaultdict

from onnx_parity.exporter.registry.rules import all_rules

#: Operators whose rules lie in two families, and why.
_IN_TWO = {"aten::erfc": "its lowering is imported late; its result is known at once, with those of all such functions"}


def folder_of(place: str) -> str:
    """The family, `linear_algebra`; for TorchScript's own syntax the interpreter, `script`."""
    room, _, rest = place.partition("/")
    return rest.partition("/")[0] if room == "operators" else room


def test_the_rules_of_an_operator_lie_in_one_folder() -> None:
    folders: defaultdict[str, set[str]] = defaultdict(set)
    for rule in all_rules():
        if rule.name.startswith("aten::"):
            folders[rule.name.partition(".")[0]].add(folder_of(rule.place))
    assert len(folders) > 600
    assert {found for each in folders.values() for found in each} >= {"activation", "linear_algebra", "script"}
    # What scripts do with lists and numbers under an operator's name is their own syntax.
    in_several = {name: each for name, each in folders.items() if len(each - {"script"}) > 1}
    assert in_several.keys() == _IN_TWO.keys(), "move the rules of these operators into one family"


def test_every_rule_has_a_place_in_a_family() -> None:
    rooms = {rule.place.partition("/")[0] for rule in all_rules() if rule.name.startswith("aten::")}
    assert rooms == {"operators", "script"}
