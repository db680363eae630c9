"""The tags of the fields of onnx.proto that exports write: which field of a message follows, and how it is written."""

from __future__ import annotations

__all__ = [
    "Attribute",
    "Dimension",
    "Entry",
    "Graph",
    "Model",
    "Node",
    "Opset",
    "Shape",
    "Tensor",
    "Type",
    "Value",
    "varint",
]


def varint(number: int) -> bytes:
    """A number in groups of seven bits, the lowest first. Negative ones are written as unsigned ones of 64 bits."""
    if 0 <= number < 128:
        return _SMALL[number]
    number &= 2**64 - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_SMALL = [bytes([number]) for number in range(128)]


def _number(field: int) -> bytes:
    """The tag of a field that is a varint."""
    return varint(field << 3)


def _bytes(field: int) -> bytes:
    """The tag of a field that is text, bytes or a message: its length follows."""
    return varint(field << 3 | 2)


def _float(field: int) -> bytes:
    """The tag of a field that is four bytes."""
    return varint(field << 3 | 5)


class Model:
    IR_VERSION = _number(1)
    PRODUCER_NAME = _bytes(2)
    PRODUCER_VERSION = _bytes(3)
    DOMAIN = _bytes(4)
    VERSION = _number(5)
    DOC_STRING = _bytes(6)
    GRAPH = _bytes(7)
    OPSET = _bytes(8)
    METADATA = _bytes(14)


class Opset:
    DOMAIN = _bytes(1)
    VERSION = _number(2)


class Entry:
    """A key with its value, of metadata or external data."""

    KEY = _bytes(1)
    VALUE = _bytes(2)


class Graph:
    NODE = _bytes(1)
    NAME = _bytes(2)
    INITIALIZER = _bytes(5)
    DOC_STRING = _bytes(10)
    INPUT = _bytes(11)
    OUTPUT = _bytes(12)
    VALUE = _bytes(13)
    METADATA = _bytes(16)


class Node:
    INPUT = _bytes(1)
    OUTPUT = _bytes(2)
    NAME = _bytes(3)
    OPERATOR = _bytes(4)
    ATTRIBUTE = _bytes(5)
    DOC_STRING = _bytes(6)
    DOMAIN = _bytes(7)
    OVERLOAD = _bytes(8)
    METADATA = _bytes(9)


class Attribute:
    NAME = _bytes(1)
    FLOAT = _float(2)
    INT = _number(3)
    STRING = _bytes(4)
    TENSOR = _bytes(5)
    GRAPH = _bytes(6)
    FLOATS = _float(7)
    INTS = _number(8)
    STRINGS = _bytes(9)
    DOC_STRING = _bytes(13)
    TYPE_PROTO = _bytes(14)
    KIND = _number(20)


class Tensor:
    DIM = _number(1)
    DTYPE = _number(2)
    STRING_DATA = _bytes(6)
    NAME = _bytes(8)
    RAW_DATA = _bytes(9)
    DOC_STRING = _bytes(12)
    EXTERNAL_DATA = _bytes(13)
    DATA_LOCATION = _number(14)
    METADATA = _bytes(16)


class Value:
    NAME = _bytes(1)
    TYPE = _bytes(2)
    DOC_STRING = _bytes(3)
    METADATA = _bytes(4)


class Type:
    """A type, and the types inside: the fields of the elements of a tensor are not those of a sequence's."""

    TENSOR = _bytes(1)
    SEQUENCE = _bytes(4)
    SPARSE_TENSOR = _bytes(8)
    OPTIONAL = _bytes(9)
    ELEMENT_DTYPE = _number(1)
    ELEMENT_TYPE = _bytes(1)
    SHAPE = _bytes(2)


class Shape:
    DIMENSION = _bytes(1)


class Dimension:
    SIZE = _number(1)
    NAME = _bytes(2)
    DENOTATION = _bytes(3)
