"""The columnar form of a run that has ended, `records.parquet`: one row per cell, which other tools read too.

A column has the name and the type of its field of `Record`. `seconds` and `metrics` are structs, `aten`, `onnx`,
`calls`, `warned` and `options` are texts of JSON, and a field that is None is null. Rows are ordered by declaration and
case. The metadata of the file name the lines that it was made from: if those have changed since, for example because
the run was resumed, it is outdated and is not read. Every page of the file has a checksum.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

from onnx_parity.harness.record import SCHEMA_VERSION, Blame, Kind, Metrics, OnnxUse, Record, Stage, Status
from onnx_parity.harness.run_store_error import RunStoreError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

FILE = "records.parquet"
#: Under these keys, the metadata of the file have the schema's version and the description of the lines.
VERSION_KEY, LINES_KEY = b"onnx_parity.schema_version", b"onnx_parity.lines"
#: As many rows are held as Python objects at a time.
_ROWS_AT_A_TIME = 20_000
_ROWS_OF_A_GROUP = 50_000

#: Fields whose values hardly repeat.
_UNIQUE = frozenset({"cell", "nodeid"})
#: Rows are ordered by these fields, and those of equal values as they were written.
_ORDER = ("kind", "family", "name", "case", "dtype", "device", "shapes", "capture", "exporter", "runtime", "opset")
_DECLARATION = _ORDER[:3]
#: Kind, family and name.
DeclarationKey: TypeAlias = tuple[str, str, str]
_AS_JSON: Mapping[str, Any] = {
    "aten": tuple[str, ...],
    "onnx": tuple[OnnxUse, ...],
    "warned": tuple[str, ...],
    "calls": tuple[str, ...],
    "options": tuple[str, ...],
    "depends": tuple[str, ...],
}
_ENUMS: Mapping[str, Any] = {"kind": Kind, "status": Status, "stage": Stage, "blame": Blame}
_DEFAULTS = {field.name: field.default for field in msgspec.structs.fields(Record)}
_METRIC_NAMES = Metrics.__struct_fields__


class _Declared(Protocol):
    """A record, or the beginning of one."""

    @property
    def kind(self) -> Kind: ...
    @property
    def family(self) -> str: ...
    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Values:
    """One column. Row `i` has the value `distinct[codes[i]]`, or `distinct[i]` if `codes` is None."""

    distinct: Sequence[Any]
    codes: np.ndarray[Any, Any] | None = None

    def each(self) -> Sequence[Any]:
        """The value of every row."""
        if self.codes is None:
            return self.distinct
        return [self.distinct[code] for code in self.codes.tolist()]


class Columns:
    """A `records.parquet`. What is read of it is not kept."""

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet as pq

        there = pq.read_schema(path).names
        repeated = [name for name in (*_text_fields(), *_AS_JSON) if name in there and name not in _UNIQUE]
        self._path = path
        self._file: pq.ParquetFile = pq.ParquetFile(
            path, read_dictionary=repeated, memory_map=True, page_checksum_verification=True
        )

    def __len__(self) -> int:
        return int(self._file.metadata.num_rows)

    @property
    def metadata(self) -> Mapping[bytes, bytes]:
        return self._file.schema_arrow.metadata or {}

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self._file.schema_arrow.names)

    def values(self, field: str, part: str = "") -> Values:
        """The column of a field of `Record`, or of a part of it: `metrics` and `headroom`, `seconds` and `export`."""
        if field not in self._names:
            return _constant(_DEFAULTS[field], len(self))
        if part:
            inner = self._file.schema_arrow.field(field).type
            if inner.get_field_index(part) < 0:
                return _constant(None, len(self))
            table = self._read([f"{field}.{part}"])
            import pyarrow.compute as pc

            return _values(field, pc.struct_field(table.column(field).combine_chunks(), [part]))
        return _values(field, self._read([field]).column(field).combine_chunks())

    def floats(self, field: str, part: str = "") -> np.ndarray[Any, Any]:
        """The numbers of a column; NaN, with which every comparison is false, for what a record does not have."""
        import numpy as np

        values = self.values(field, part)
        return np.array(values.each(), np.float64)

    @property
    def schema(self) -> pa.Schema:
        return self._file.schema_arrow

    def spans(self) -> dict[DeclarationKey, tuple[int, int]]:
        """The first row of every declaration, and the one behind its last, in the order of the rows."""
        import numpy as np

        columns = [self.values(name) for name in _DECLARATION]
        codes = [np.asarray(column.codes) for column in columns]
        changes = np.logical_or.reduce([each[1:] != each[:-1] for each in codes])
        begins = [0, *(np.flatnonzero(changes) + 1).tolist()] if len(self) else []
        keys = [
            tuple(column.distinct[each[row]] for column, each in zip(columns, codes, strict=True)) for row in begins
        ]
        return dict(zip(keys, pairwise([*begins, len(self)]), strict=True))

    def rows(self, begin: int, end: int) -> pa.Table:
        """The rows from `begin` to before `end`, with all columns, for writing them again."""
        import pyarrow as pa

        parts, first = [], 0
        for group in range(self._file.num_row_groups):
            rows = self._file.metadata.row_group(group).num_rows
            if first < end and begin < first + rows:
                with self._report_damage():
                    table = self._file.read_row_group(group)
                at = max(0, begin - first)
                parts.append(table.slice(at, min(rows, end - first) - at))
            first += rows
        return pa.concat_tables(parts)

    def text(self, field: str) -> pa.ChunkedArray:
        """A column of texts as Arrow has it, for computing with all of it at once."""
        return self._read([field]).column(field)

    def records(self) -> Iterator[Record]:
        """Every record, case by case. A batch of rows at a time is in memory."""
        with self._report_damage():
            for batch in self._file.iter_batches(batch_size=_ROWS_AT_A_TIME):
                yield from _records(batch)

    def rows_with(self, field: str, holds: Callable[[Any], bool]) -> list[int]:
        """The numbers of the rows of whose value in a column of repeated values this holds, ascending."""
        import numpy as np

        values = self.values(field)
        assert values.codes is not None, f"{field} has hardly any repeated values"
        # Of a record without a value there is nothing to hold.
        wanted = [code for code, value in enumerate(values.distinct) if value is not None and holds(value)]
        rows: list[int] = np.flatnonzero(np.isin(values.codes, wanted)).tolist()
        return rows

    def records_at(self, rows: Sequence[int]) -> Iterator[Record]:
        """The records in these rows, which ascend."""
        import pyarrow as pa

        wanted = iter([*rows, None])
        row = next(wanted)
        begin = 0
        for group in range(self._file.num_row_groups):
            end = begin + self._file.metadata.row_group(group).num_rows
            here = []
            while row is not None and row < end:
                here.append(row - begin)
                row = next(wanted)
            if here:
                with self._report_damage():
                    table = self._file.read_row_group(group).take(pa.array(here, pa.int64()))
                for batch in table.to_batches(max_chunksize=_ROWS_AT_A_TIME):
                    yield from _records(batch)
            begin = end

    def _read(self, columns: Sequence[str]) -> pa.Table:
        with self._report_damage():
            return self._file.read(columns)

    @contextmanager
    def _report_damage(self) -> Generator[None]:
        import pyarrow as pa

        try:
            yield
        except (pa.ArrowException, OSError) as error:
            raise RunStoreError(
                f"{self._path} is damaged: {error}. Delete it: it is made again from the lines of the run."
            ) from error


def write_columns(path: Path, records: Iterable[Record], declared: Mapping[DeclarationKey, int], lines: object) -> None:
    """Write the records as columns. `declared` has about the number of records of every declaration that they have.
    `lines` describes what they were read from; see `open_columns`.

    What has been read waits for its row group in packed tables: a million records would take gigabytes.
    """
    group_of = _row_groups(declared)
    groups = [_Waiting() for _ in range(max(group_of.values(), default=0) + 1)]
    held = 0
    for record in records:
        groups[group_of[declaration_of(record)]].records.append(record)
        held += 1
        if held >= _ROWS_AT_A_TIME:
            held -= max(groups, key=lambda group: len(group.records)).pack()
    for group in groups:
        group.pack()
    schemas = [schema for group in groups for schema in group.schemas]
    _write_groups(path, schemas or [_table([]).schema], (group.table() for group in groups if group.packed), lines)


def write_merged(path: Path, parts: Sequence[Columns], lines: object) -> bool:
    """Write the rows of all `parts`, unless a cell occurs in several of them. Return whether they were written."""
    import pyarrow as pa
    import pyarrow.compute as pc

    cells = pa.chunked_array([chunk for part in parts for chunk in part.text("cell").chunks], pa.string())
    if pc.count_distinct(cells).as_py() < len(cells):
        return False
    del cells
    spans = [part.spans() for part in parts]
    declared: Counter[DeclarationKey] = Counter()
    for of_part in spans:
        declared.update({key: end - begin for key, (begin, end) in of_part.items()})
    groups: defaultdict[int, list[DeclarationKey]] = defaultdict(list)
    for key, number in _row_groups(declared).items():
        groups[number].append(key)

    def tables() -> Iterator[pa.Table]:
        for keys in groups.values():
            found = [[of_part[key] for key in keys if key in of_part] for of_part in spans]
            # The rows of a part are in the same order, so that those of a group stand together.
            here = [part.rows(at[0][0], at[-1][1]) for part, at in zip(parts, found, strict=True) if at]
            yield pa.concat_tables(here, promote_options="permissive")

    _write_groups(path, [part.schema for part in parts], tables(), lines)
    return True


def declaration_of(record: _Declared) -> DeclarationKey:
    return record.kind, record.family, record.name


def _row_groups(declared: Mapping[DeclarationKey, int]) -> dict[DeclarationKey, int]:
    """The number of the row group of every declaration, in their order: as many as fit into one, and at least one."""
    groups: dict[DeclarationKey, int] = {}
    number = rows = 0
    for key in sorted(declared):
        if rows and rows + declared[key] > _ROWS_OF_A_GROUP:
            number, rows = number + 1, 0
        groups[key] = number
        rows += declared[key]
    return groups


class _Waiting:
    """The records of a row group that have been read so far, most of them in packed tables."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.packed: list[pa.Buffer] = []
        #: The distinct schemas of the tables: a record may have a stage that this version does not know.
        self.schemas: list[pa.Schema] = []

    def pack(self) -> int:
        """Pack the records that are not yet packed, and return their number."""
        import pyarrow as pa

        number = len(self.records)
        if number:
            table = _table(self.records)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
                writer.write_table(table)
            self.packed.append(sink.getvalue())
            self.schemas += [table.schema] if table.schema not in self.schemas else []
            self.records.clear()
        return number

    def table(self) -> pa.Table:
        """All rows. They are not kept."""
        import pyarrow as pa

        tables = [pa.ipc.open_stream(packed).read_all() for packed in self.packed]
        self.packed.clear()
        return pa.concat_tables(tables, promote_options="permissive")


def _write_groups(path: Path, schemas: Sequence[pa.Schema], tables: Iterable[pa.Table], lines: object) -> None:
    """Write a row group of each table, or several of a very large one, ordered by declaration and case."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.unify_schemas(list(schemas), promote_options="permissive").with_metadata(
        {VERSION_KEY: str(SCHEMA_VERSION).encode(), LINES_KEY: msgspec.json.encode(lines)}
    )
    aside = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        with pq.ParquetWriter(
            aside,
            schema,
            compression="zstd",
            use_dictionary=[name for name in schema.names if name not in _UNIQUE],
            column_encoding=dict.fromkeys(_UNIQUE, "DELTA_BYTE_ARRAY"),
            write_page_checksum=True,
        ) as writer:
            for table in tables:
                # The empty table adds the columns and parts of structs that only other groups have.
                whole = pa.concat_tables([schema.empty_table(), table], promote_options="permissive")
                whole = whole.cast(schema).unify_dictionaries()
                writer.write_table(whole.take(pa.array(_order(whole))), row_group_size=_ROWS_OF_A_GROUP)
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def open_columns(path: Path, lines: object) -> Columns | None:
    """The columns, if there are any and they were made from these lines by this version's schema."""
    import pyarrow as pa

    try:
        columns = Columns(path)
    except (FileNotFoundError, pa.ArrowInvalid, OSError):
        # A file that was cut short is replaced when its columns are next written.
        return None
    found = columns.metadata.get(LINES_KEY), columns.metadata.get(VERSION_KEY)
    return columns if found == (msgspec.json.encode(lines), str(SCHEMA_VERSION).encode()) else None


# From records to columns.


def _table(records: Sequence[Record]) -> pa.Table:
    import pyarrow as pa

    arrays: dict[str, pa.Array] = {}
    for name in _text_fields():
        array = pa.array([getattr(record, name) for record in records], pa.string())
        arrays[name] = array if name in _UNIQUE else array.dictionary_encode()
    for name, number in _number_fields():
        arrays[name] = pa.array([getattr(record, name) for record in records], number)
    for name in _AS_JSON:
        arrays[name] = pa.array([_json(getattr(record, name)) for record in records], pa.string()).dictionary_encode()
    arrays["seconds"] = _seconds([record.seconds for record in records])
    arrays["metrics"] = _metrics([record.metrics for record in records])
    return pa.table({name: arrays[name] for name in Record.__struct_fields__})


@lru_cache(1 << 16)
def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _seconds(all_seconds: Sequence[Mapping[str, float]]) -> pa.StructArray:
    """A struct with a field for each stage: those of this version, and any others that occur."""
    import pyarrow as pa

    stages = list(dict.fromkeys([*Stage, *(stage for seconds in all_seconds for stage in seconds)]))
    columns = [pa.array([seconds.get(stage) for seconds in all_seconds], pa.float64()) for stage in stages]
    return pa.StructArray.from_arrays(columns, [str(stage) for stage in stages])


def _metrics(all_metrics: Sequence[Metrics | None]) -> pa.StructArray:
    import pyarrow as pa

    types = {"output": pa.int32(), "index": pa.list_(pa.int64())}
    columns = [
        pa.array([getattr(metrics, name, None) for metrics in all_metrics], types.get(name, pa.float64()))
        for name in _METRIC_NAMES
    ]
    missing = pa.array([metrics is None for metrics in all_metrics], pa.bool_())
    return pa.StructArray.from_arrays(columns, list(_METRIC_NAMES), mask=missing)


def _order(table: pa.Table) -> np.ndarray[Any, Any]:
    import numpy as np

    keys = []
    for name in _ORDER:
        column = table.column(name).combine_chunks()
        if name == "opset":
            keys.append(column.to_numpy(zero_copy_only=False))
        else:
            values = column.dictionary.to_pylist()
            ranks = np.empty(max(len(values), 1), np.int32)
            ranks[sorted(range(len(values)), key=values.__getitem__)] = np.arange(len(values), dtype=np.int32)
            keys.append(ranks[column.indices.to_numpy(zero_copy_only=False)])
    return np.lexsort(keys[::-1])


# From columns to records.


def _records(batch: pa.RecordBatch) -> Iterator[Record]:
    columns = [_column(name, batch) for name in Record.__struct_fields__]
    return map(Record, *columns)


def _column(name: str, batch: pa.RecordBatch) -> Sequence[Any]:
    place = batch.schema.get_field_index(name)
    return _values(name, batch.column(place)).each() if place >= 0 else [_DEFAULTS[name]] * len(batch)


def _values(name: str, array: pa.Array) -> Values:
    import pyarrow as pa

    if pa.types.is_dictionary(array.type):
        # A null, which is a blame that there is not, has a code of its own.
        convert = _converter(name)
        distinct = [*map(convert, array.dictionary.to_pylist()), None]
        codes = array.indices.fill_null(len(distinct) - 1).to_numpy(zero_copy_only=False)
        return Values(distinct, codes)
    if pa.types.is_struct(array.type):
        return Values(_seconds_of(array) if name == "seconds" else _metrics_of(array))
    if array.null_count and pa.types.is_floating(array.type):
        # JSON has no NaN, so that no record does.
        return Values([None if v != v else v for v in array.to_numpy(zero_copy_only=False).tolist()])
    if array.null_count or pa.types.is_nested(array.type):
        return Values([tuple(v) if isinstance(v, list) else v for v in array.to_pylist()])
    if pa.types.is_string(array.type):
        return Values(array.to_pylist())
    return Values(array.to_numpy(zero_copy_only=False).tolist())


def _converter(name: str) -> Callable[[str], Any]:
    if name in _AS_JSON:
        decoder = msgspec.json.Decoder(_AS_JSON[name])
        return decoder.decode
    return _ENUMS.get(name, str)  # type: ignore[no-any-return]


def _seconds_of(array: pa.StructArray) -> list[dict[str, float]]:
    stages = [field.name for field in array.type]
    columns = [_values(stage, array.field(stage)).distinct for stage in stages]
    return [
        {stage: value for stage, value in zip(stages, row, strict=True) if value is not None}
        for row in zip(*columns, strict=True)
    ]


def _metrics_of(array: pa.StructArray) -> list[Metrics | None]:
    valid = array.is_valid().to_pylist()
    columns = [_values(name, array.field(name)).distinct for name in _METRIC_NAMES]
    return [Metrics(*row) if there else None for there, row in zip(valid, zip(*columns, strict=True), strict=True)]


def _constant(value: object, rows: int) -> Values:
    import numpy as np

    return Values([value], np.zeros(rows, np.int8))


@cache
def _text_fields() -> tuple[str, ...]:
    return tuple(name for name, kind in _types().items() if kind in (str, *_ENUMS.values()))


@cache
def _number_fields() -> tuple[tuple[str, Any], ...]:
    import pyarrow as pa

    arrow = {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    return tuple((name, arrow[kind]) for name, kind in _types().items() if kind in arrow)


@cache
def _types() -> Mapping[str, Any]:
    """The fields of `Record` and their types, `Blame` for `Blame | None`."""
    from typing import get_type_hints

    hints = get_type_hints(Record)
    return {name: _ENUMS.get(name, hints[name]) for name in Record.__struct_fields__}
