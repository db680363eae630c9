"""The values that a loop of Python carries to the next iteration: variables, attributes, and what containers hold."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from onnx_parity.exporter.graph.decisions import Decision, Reconsider
from onnx_parity.exporter.graph.graph import same_shape
from onnx_parity.exporter.recording.blocks import KEPT_ELSEWHERE, Blocks
from onnx_parity.exporter.recording.leaves import EMPTY, UNSET, Leaf, is_number, is_number_if_set, mark_number
from onnx_parity.exporter.recording.python_loops.aliases import Aliases
from onnx_parity.exporter.recording.python_loops.carried_attributes import Attributes, plain_values
from onnx_parity.exporter.recording.python_loops.columns import added_item, append_to_column
from onnx_parity.exporter.recording.python_loops.grown_list import GrownList, Stacked, Unfilled
from onnx_parity.exporter.recording.python_loops.kept_state import KeptState
from onnx_parity.exporter.recording.python_loops.places import (
    Form,
    FormOfItems,
    Place,
    SharedParts,
    assign_all,
    containers_in,
    copied,
    fill,
    items_before,
    lists_in,
    together,
    with_differing,
    with_objects_opened,
)
from onnx_parity.exporter.recording.python_loops.watched_list import WatchedList
from onnx_parity.exporter.sizes.looped import Parts
from onnx_parity.exporter.torch_inside import pytree
from onnx_parity.exporter.torch_inside.frames import FrameType
from onnx_parity.exporter.torch_inside.loops.loops_of_python import carried_names, variables_of

__all__ = ["CarriedValues", "OtherForms"]


_OTHER_STRUCTURE = (
    "the variable %s has another structure after an iteration of a loop over a dynamic size than before: keep its "
    "structure, and assign tensors or numbers before the loop"
)


class OtherForms(Exception):
    """The structure of a value is another one after an iteration. The loop begins again, with that structure."""


class CarriedValues:
    """The values that a loop of frames carries, as leaves."""

    def __init__(
        self, blocks: Blocks, frames: Sequence[FrameType], parts: Sequence[Parts],
        read_later: Collection[str] | None = None, *, is_of_function: bool = False,
    ) -> None:  # fmt: skip
        """`parts` are what the loop goes over; `read_later` are the only variables that are read afterwards. Statements
        of a function are run once."""
        self._read_later, self._is_of_function = read_later, is_of_function
        self._blocks, self._frames = blocks, frames
        variables = [(frame, variables_of(frame)) for frame in frames]
        found: dict[int, Any] = {}
        values = [
            (frame, name, values.get(name, UNSET))
            for frame, values in variables
            for name in sorted(carried_names(frame))
        ]
        for _, _, value in values:
            containers_in(value, found)
        self._kept = frozenset(found)
        self._places = [Place(value, *self._apart(value), name, frame) for frame, name, value in values]
        self._places += [self._of_container(each, copied(each)) for each in found.values()]
        leaves = {id(leaf) for leaf in self.leaves}
        #: The parts of tensors that variables have too, with these tensors, and whether the body writes to them.
        self._shared = [SharedParts(part, part.whole) for part in parts if id(part.whole) in leaves]
        others = [part for part in parts if id(part.whole) not in leaves]
        self._places += [Place(each.whole, *self._apart(each.whole), "whole", vars(each)) for each in others]
        #: The leaves that the program was given, and those that it left, in the last iteration that was recorded.
        self._given: list[Leaf] = []
        self._before: list[Leaf] = []
        self._left: list[Leaf] = []
        #: For each leaf, whether it is a number of Python on all paths that set it.
        self._are_numbers: list[bool] = []
        #: The attributes of objects in the variables.
        self._attributes = Attributes(blocks, [value for _, held in variables for value in held.values()])
        #: What these hold after the last two iterations, on each path through the body.
        self._elsewhere: list[dict[tuple[int, str], Any]] = []
        self._aliases = Aliases(blocks)
        #: What else the variables lead to.
        state = (value for _, held in variables for value in held.values())
        reader = blocks.recorder.reader
        self._state = KeptState(state, self._kept, reader.globals_named, reader.changes)
        #: What the last iteration collected: the places of lists, with the numbers of leaves of their items.
        self._collected: list[tuple[Place, int]] = []
        #: The lists that loops have filled, by identity, with their items before the loop, and those that they have
        #: when an iteration begins. The program may have one in several places, and finds the same list in the loop.
        self._lists: dict[int, tuple[GrownList, Stacked]] = {}
        self._items_given: dict[int, Stacked] = {}
        self._note_lists(self._places)
        #: What is to be recorded before the loop begins again.
        self._outside: list[Callable[[], None]] = []

    @property
    def leaves(self) -> list[Leaf]:
        return [leaf for place in self._places for leaf in place.leaves]

    @property
    def given(self) -> Sequence[Leaf]:
        """The leaves that the program was given in the last iteration."""
        return self._given

    @property
    def left(self) -> Sequence[Leaf]:
        """The leaves that it left."""
        return self._left

    def has_another_name(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor among the leaves shares memory with another one, or with one in an attribute."""
        return self._attributes.share_memory(tensor, [each for each in self.leaves if each is not tensor])

    def refuse_kept(self) -> None:
        """Refuse a path through the body that has changed what the other paths would find."""
        if self._state.has_changed({(id(place.holder), place.name) for place in self._places}, self._kept):
            raise self._blocks.error(KEPT_ELSEWHERE)

    def begin(self) -> None:
        """Called before the paths of an iteration are run."""
        del self._elsewhere[:-1]

    def settle(self, given: Sequence[Leaf], left: Sequence[Leaf]) -> None:
        """Note what the program would have been given, and left, if it had run the paths of an iteration as one."""
        self._given, self._left = [*given], [*left]

    def collected(self, added: Mapping[int, Sequence[torch.Tensor]], always: Mapping[int, Leaf]) -> list[torch.Tensor]:
        """What a loop collects: tensors that an iteration adds to lists, and whether it does where not each does."""
        found: list[torch.Tensor] = []
        self._collected.clear()
        for number, place in enumerate(self._places):
            found += added.get(number, ())
            if number in added:
                self._collected += [(place, leaf) for leaf in place.stacked_leaves]
            place.is_added_to_always = always.get(number, True) is True
            if not place.is_added_to_always:
                found.append(self._blocks.as_tensor(always[number]))
        return found

    @contextmanager
    def looked_at(self) -> Iterator[None]:
        """A context in which leaves are taken while an iteration runs, which goes on afterwards."""
        elsewhere, left = [*self._elsewhere], self._left
        try:
            yield
        finally:
            self._elsewhere, self._left = elsewhere, left

    def give(self, leaves: Sequence[Leaf]) -> None:
        """Have the program find these leaves in its variables and containers."""
        self._given = [self._in_python(*pair) for pair in zip(self.leaves, leaves, strict=True)]
        for place in self._places:
            if place.watched is not None:
                place.watched = WatchedList()
                place.watched.owner, place.watched.stands_for = self, place.container
        self._put(
            iter(self._given), {id(each.container): each.watched for each in self._places if each.watched is not None}
        )
        self._items_given = {number: each.items_of_loop for number, (each, _) in self._lists.items()}
        self._before = self._blocks.settled(self._given)
        self._aliases.begin(self._given, self._before)
        self._have_parts_of(self._given)

    def _have_parts_of(self, leaves: Sequence[Leaf]) -> None:
        """Have the loop go over the parts of what it writes to."""
        now = {id(start): leaf for start, leaf in zip(self.leaves, leaves, strict=True)}
        for each in self._shared:
            if each.is_written:
                each.parts.whole = now[id(each.whole)]

    def _in_python(self, start: Leaf, leaf: Leaf) -> Leaf:
        wants_number = is_number(start) and type(start) is not bool
        return self._blocks.number(leaf) if wants_number and isinstance(leaf, torch.Tensor) else leaf

    def take(self) -> tuple[list[Leaf], dict[int, list[torch.Tensor]]]:
        """The leaves after an iteration, and the tensors that it has added to lists, by the places of these."""
        variables = {frame: variables_of(frame) for frame in self._frames}
        self._elsewhere.append(plain_values(self._attributes.objects))
        leaves: list[Leaf] = []
        added: dict[int, list[torch.Tensor]] = {}
        leaves_added: dict[int, list[torch.Tensor]] = {}
        others = False
        for number, place in enumerate([*self._places]):
            value = place.value(variables)
            if place.watched is not None:
                more = place.watched.added(len(place.start))
                place.is_read |= place.watched.is_read
                place.is_added_to |= bool(more)
                if place.watched.is_looked_up or (place.is_read and place.is_added_to):
                    self._carry_whole(place)
                    others = True
                    continue
                if more:
                    added[number], leaves_added[number] = self._added(place, more)
                value = list.__getitem__(place.watched, slice(len(place.start)))
            elif type(value) is list and (like := next((item for item in value if isinstance(item, Stacked)), None)):
                value = GrownList.of(value, like)
            is_variable = isinstance(place.holder, FrameType)
            if is_variable and self._read_later is not None and place.name not in self._read_later:
                leaves += self._given[len(leaves) : len(leaves) + len(place.leaves)]
                continue
            others |= bool(place.lists) and self._has_other_lists(place, value)
            value = with_differing(with_objects_opened(value, self._kept, place.leaves), place.form)
            form, own = self._apart(value, but=value if place.name is None else None)
            if form != place.form:
                own = self._joined(place, value, form, own)
                others = True
            leaves += own
        if others or self._carry_attributes() or self._share_written(leaves):
            raise OtherForms
        self._left = leaves
        known = self._are_numbers or map(is_number_if_set, self.leaves)
        ends = zip(known, leaves, self._given, strict=True)
        self._are_numbers = [known and (leaf is given or is_number_if_set(leaf)) for known, leaf, given in ends]
        self._aliases.end(self.leaves, leaves, leaves_added)
        return leaves, added

    def _carry_attributes(self) -> bool:
        """Carry the attributes whose values are others after an iteration; whether there are any."""
        carried = {(id(place.holder), place.name) for place in self._places}
        changed = self._attributes.changed(carried, self.leaves)
        for each in changed:
            if each.held is not None:
                self._kept |= {id(each.start)}
                self._state.leave_out(each.start)
                self._places.append(self._of_container(each.start, each.held))
            self._places.append(Place(each.start, *self._apart(each.start), each.name, each.holder))
        return bool(changed)

    def _note_lists(self, places: Iterable[Place]) -> None:
        for place in places:
            place.lists = lists_in(place.start, self._kept)
            for each in place.lists:
                self._lists.setdefault(id(each), (each, each.items_of_loop))

    def _has_other_lists(self, place: Place, value: Any) -> bool:
        """Whether an iteration has put other lists into a place than it found there. Refuses one that changes them,
        too."""
        left = lists_in(value, self._kept)
        if len(left) == len(place.lists) and all(map(operator.is_, left, place.lists)):
            return False
        if any(each.items_of_loop is not self._items_given[id(each)] for each in place.lists):
            raise self._blocks.error(
                "a loop over a dynamic size both changes a list of as many items as a dynamic size says and assigns "
                "another list to its variable: do one of both"
            )
        place.lists = []
        return True

    def _begin_with(self, place: Place, items: GrownList) -> None:
        """Begin the loop with other items of a list."""
        if place.lists:
            (held,) = place.lists
            self._lists[id(held)] = held, items.items_of_loop
            items = held.become(items.items_of_loop)
        place.start = items
        for each in self._places:
            if each is place or any(one is items for one in each.lists):
                each.form, each.leaves = self._apart(each.start, but=each.start if each.name is None else None)

    def _of_container(self, container: Any, held: Any) -> Place:
        """The place of a list or dict that holds this when the loop begins."""
        watched = WatchedList() if isinstance(container, list) and not self._is_of_function else None
        return Place(held, *self._apart(held, but=held), container=container, watched=watched)

    def _share_written(self, leaves: Sequence[Leaf]) -> bool:
        """Note which tensors the loop both goes over and writes to; whether there are more than were known."""
        written = {
            id(start)
            for start, given, before, left in zip(self.leaves, self._given, self._before, leaves, strict=True)
            if left is given and isinstance(given, torch.Tensor) and self._blocks.take(given) is not before
        }
        found = [each for each in self._shared if not each.is_written and id(each.whole) in written]
        for each in found:
            each.is_written = True
        return bool(found)

    def _carry_whole(self, place: Place) -> None:
        """Carry all items of a list that the loop both reads and adds to."""
        names = [each for each in self._places if any(leaf is place.container for leaf in each.leaves)]
        if len(names) != 1 or names[0].start is not place.container:
            raise self._blocks.error(
                "a loop over a dynamic size reads a list to which it adds, and which other containers hold too: keep "
                "the list in one variable"
            )
        if not place.start:
            error = "a loop over a dynamic size reads a list to which it adds, and which is empty before the loop"
            raise Reconsider(Decision.FIRST_ITERATIONS, refusal=self._blocks.error(error))
        leaves, spec = pytree.tree_flatten(place.start[0])
        numbers = [*map(is_number, leaves)]
        self._places.remove(place)
        names[0].container_before = place.container
        self._outside.append(lambda: self._begin_with_whole(names[0], place.start, Stacked(spec, [], numbers)))

    def _begin_with_whole(self, place: Place, items: list[Any], like: Stacked) -> None:
        self._begin_with(place, GrownList.of(items, like))

    def _added(self, place: Place, items: list[Any]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """What the loop collects of the items that an iteration has added to a list, and all their leaves."""
        rows = [pytree.tree_flatten(item) for item in items]
        _, spec = rows[0]
        numbers = tuple(is_number(leaf) for leaf in rows[0][0])
        if any(row[1] != spec for row in rows):
            raise self._blocks.error("a loop over a dynamic size adds unlike items to a list: use a list for each")
        count = place.added[0] if place.added else len(items)
        if count != len(items):
            raise self._blocks.error(
                f"a loop over a dynamic size adds {count} items to a list in one iteration and {len(items)} in "
                "another: write them to a tensor with a place for each that may be added, and return their number too"
            )
        place.added = len(items), spec, numbers
        columns = [
            [added_item(self._blocks, leaf) for leaf in column]
            for column in zip(*(row[0] for row in rows), strict=True)
        ]
        unlike = [
            leaf
            for leaf, column in enumerate(columns)
            if leaf not in place.differing and not all(same_shape(column[0].shape, each.shape) for each in column)
        ]
        for leaf in unlike:
            self._make_list(place, leaf)
        if unlike:
            raise OtherForms
        for leaf, of_leaf in place.differing.items():
            held = of_leaf.holder
            assert isinstance(held, dict)
            held["items"] = append_to_column(self._blocks, held["items"], columns[leaf])
        stacked = [columns[leaf] for leaf in place.stacked_leaves]
        collected = [column[0] if len(column) == 1 else torch.stack(column) for column in stacked]
        return collected, [leaf for column in columns for leaf in column]

    def carry_as_list(self, collected: int) -> None:
        """Carry what the loop collects, of these leaves, as a list of the model, since their sizes differ."""
        place, leaf = self._collected[collected]
        self._make_list(place, leaf)

    def _make_list(self, place: Place, leaf: int) -> None:
        items = Place(EMPTY, *self._apart(EMPTY), "items", {"items": EMPTY})
        place.differing[leaf] = items
        self._places.append(items)

    def _joined(self, place: Place, value: Any, form: Form, leaves: list[Leaf]) -> list[Leaf]:
        """Give a place the structure that it has after an iteration, if its value at first can have that too."""
        start = place.start
        if place.name is not None and start is UNSET and form not in place.forms:
            # Two paths that give it different structures would otherwise be recorded in turns, without end.
            place.forms.append(form)
            place.form, place.leaves = form, [UNSET] * len(leaves)
            return leaves
        if place.name is not None and type(start) in (list, WatchedList) and isinstance(value, GrownList):
            stacked = value.items_of_loop
            place.form, place.leaves = form, [EMPTY] * len(leaves)
            place.container_before = start
            if known := copied(start):
                self._outside.append(lambda: self._begin_with_whole(place, known, stacked))
            return leaves
        if isinstance(start, GrownList) and isinstance(value, GrownList):
            start = GrownList(self._lists[id(start)][1]) if id(start) in self._lists else start
            unfilled, items_now = start.items_of_loop, value.items_of_loop
            if isinstance(unfilled, Unfilled):
                self._outside.append(lambda: self._begin_with(place, GrownList(unfilled.filled(items_now))))
                return leaves
            wider = with_differing(start, form)
            if wider is not start and self._apart(wider)[0] == form:
                place.form = form
                self._outside.append(lambda: self._begin_with(place, with_differing(start, form)))
                return leaves
        if type(start) is list and type(value) is list and len(value) > len(start) and place.container is None:
            if not start:
                raise Reconsider(Decision.FIRST_ITERATIONS, refusal=self._blocks.error(_OTHER_STRUCTURE % place.name))
            items, spec = pytree.tree_flatten(start[0])
            like = Stacked(spec, [], [*map(is_number, items)])
            self._outside.append(lambda: self._begin_with_whole(place, copied(start), like))
            return leaves
        is_of_function = self._is_of_function and place.container is not None
        known = items_before(value, start) if is_of_function and form not in place.forms else None
        if known is not None:  # Statements of a function add items. On another path they may add others.
            place.forms.append(form)
            new = len(leaves) - len(self._apart(known, but=known)[1])
            place.form, place.leaves = form, [*place.leaves, *[UNSET] * new]
            return leaves
        if place.name is not None:
            by_value = self._apart(with_objects_opened(start, self._kept), but=start)
            if by_value[0] == form:
                place.form, place.leaves = by_value
                return leaves
        if is_of_function and isinstance(start, list) and place.watched is None:
            place.watched = WatchedList()
            place.form, place.leaves = self._apart(start, but=start)
            return leaves
        raise self._blocks.error(_OTHER_STRUCTURE % (place.name or "of a list or dict"))

    def finish(self, results: Sequence[Leaf], stacks: Sequence[torch.Tensor], trips: Any = None) -> None:
        """Have the program find what the loop has made, in so many iterations, if that is known."""
        carried = {(id(place.holder), place.name) for place in self._places}
        kept = [{place: held for place, held in each.items() if place not in carried} for each in self._elsewhere]
        if any(each != kept[-1] for each in kept):
            raise self._blocks.error(KEPT_ELSEWHERE)
        ends: list[Leaf] = []
        for number, (start, given, left, result) in enumerate(
            zip(self.leaves, self._given, self._left, results, strict=True)
        ):
            if left is given and isinstance(start, torch.Tensor) and result is not start:
                start.copy_(result)
                ends.append(start)
            else:
                ends.append(self._in_python(left if start is UNSET else start, result))
                if self._are_numbers[number] and isinstance(ends[-1], torch.Tensor):
                    mark_number(ends[-1])
        grown: dict[int, GrownList] = {}
        whole = iter(stacks)
        for place in self._places:
            if place.added is not None:
                grown[id(place.container)] = GrownList(self._grown(place, whole, ends, trips))
        for place in self._places:
            place.watched = None
        self._aliases.watch(ends, lambda place: grown[id(self._places[place].container)].items_of_loop.stacks)
        self._put(iter(ends), grown)
        self._have_parts_of(ends)

    def _grown(self, place: Place, stacks: Iterator[torch.Tensor], ends: Sequence[Leaf], trips: Any) -> Stacked:
        """The items that the loop has added to a list."""
        assert place.added is not None
        count, spec, numbers = place.added
        own = {leaf: next(stacks) for leaf in place.stacked_leaves}
        if place.is_added_to_always is not True:
            has_added, trips = next(stacks), None
            own = {leaf: each[has_added] for leaf, each in own.items()}
        if count > 1:
            own = {leaf: each.flatten(0, 1) for leaf, each in own.items()}
        for leaf, items in place.differing.items():
            own[leaf] = ends[sum(len(each.leaves) for each in self._places[: self._places.index(items)])]
        length = None if trips is None else count * trips
        return Stacked(spec, [own[leaf] for leaf in range(len(numbers))], numbers, length)

    def start_again(self) -> None:
        """Have the program find what it found at first, or what the loop turned out to begin with."""
        for held, items in self._lists.values():
            held.become(items)
        for begin in self._outside:
            begin()
        self._outside.clear()
        self._are_numbers.clear()
        self._aliases.forget()
        for place in self._places:
            place.added = None
            if place.name is None:
                fill(place.container, place.start)
        assign_all({id(place): place.start for place in self._places}, self._places)
        for each in self._shared:
            each.parts.whole = each.whole

    def _put(self, leaves: Iterator[Leaf], replaced: Mapping[int, list[Any]]) -> None:
        values: dict[int, Any] = {}
        for place in self._places:
            value = together(place.form, leaves, replaced, place.lists)
            if place.name is not None:
                values[id(place)] = value
                if place.container_before is not None:
                    fill(place.container_before, value)
                continue
            other = replaced.get(id(place.container))
            if isinstance(other, GrownList):
                if value:
                    other.insert_all(value)
                value = [other.items_of_loop]
            fill(place.container if place.watched is None else place.watched, value)
        assign_all(values, self._places)

    def _apart(self, value: Any, *, but: Any = None) -> tuple[Form, list[Leaf]]:
        """The structure and the leaves of a value. Containers of the frame are leaves, but for one."""
        kept = self._kept
        parts, spec = pytree.tree_flatten(value, is_leaf=lambda each: id(each) in kept and each is not but)
        leaves: list[Leaf] = []
        lists: list[FormOfItems | None] = []
        for part in parts:
            if isinstance(part, WatchedList) and part.owner is self:
                leaves.append(part.stands_for)
                lists.append(None)
            elif isinstance(part, GrownList):
                stacked = part.items_of_loop
                leaves += stacked.stacks
                lists.append(FormOfItems.of(stacked))
            else:
                leaves.append(part)
                lists.append(None)
        return Form(spec, tuple(lists), isinstance(value, torch.Size)), leaves
