"""Whether two calls are the same call, told by hashes that mean nothing outside their run.

Arguments never leave the process: the salt is the run's own. What cannot be compared safely has no fingerprint, and
a call without one is never taken for a repetition.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import Any

SHORT = 200
"""A string up to this length is compared as it is; a longer one by its hash."""
FEW = 8
DEEPEST = 60
MOST_NODES = 50_000
_WIDE = 10**17
_LOWEST = -_WIDE
_AS_TEXT = frozenset({"decimal", "fractions", "datetime", "uuid", "pathlib", "ipaddress"})


class _Uncomparable(Exception):
    """A value that cannot be told from another: a stream, an object of an unknown class, something too large."""


class _Writer:
    """Writes one value in canonical form."""

    __slots__ = ("_casefold", "_on_path", "_parts")

    def __init__(self, casefold: Collection[str]) -> None:
        self._casefold = casefold
        self._parts: list[str] = []
        self._on_path: list[int] = []

    def text(self) -> str:
        return "".join(self._parts)

    def arguments(self, args: Mapping[Any, Any], ignored: Collection[str]) -> None:
        """Top-level arguments: only here have names a meaning to the policy."""
        kept = {name: value for name, value in args.items() if name not in ignored} if ignored else args
        self._nested(kept, self._mapping, False)

    def value(self, value: Any, fold: bool = False) -> None:
        plain = _SCALARS.get(type(value))
        if plain is not None:
            self._parts.append(plain(value, fold))
        else:
            self._composite(value, fold)

    def _composite(self, value: Any, fold: bool) -> None:
        if isinstance(value, Mapping):
            self._nested(value, self._mapping, fold)
        elif isinstance(value, list | tuple):
            self._nested(value, self._sequence, fold)
        elif isinstance(value, set | frozenset):
            self._nested(value, self._set, fold)
        else:
            self._other(value, fold)

    def _nested(self, value: Any, write: Callable[[Any, bool], None], fold: bool) -> None:
        if id(value) in self._on_path:
            self._parts.append(f"^{len(self._on_path) - self._on_path.index(id(value))}")
            return
        if len(self._on_path) >= DEEPEST or len(self._parts) > MOST_NODES:
            raise _Uncomparable
        self._on_path.append(id(value))
        write(value, fold)
        self._on_path.pop()

    def _mapping(self, value: Mapping[Any, Any], fold: bool) -> None:
        top = len(self._on_path) == 1
        self._parts.append("{")
        for name in sorted(value, key=_key):
            self._parts.append(f"{_key(name)}:")
            self.value(value[name], fold or (top and name in self._casefold))
        self._parts.append("}")

    def _sequence(self, value: Collection[Any], fold: bool) -> None:
        self._parts.append("[")
        for item in value:
            self.value(item, fold)
            self._parts.append(",")
        self._parts.append("]")

    def _set(self, value: Collection[Any], fold: bool) -> None:
        members = []
        for item in value:
            own = _Writer(self._casefold)
            own.value(item, fold)
            members.append(own.text())
        self._parts.append("<" + ",".join(sorted(members)) + ">")

    def _other(self, value: Any, fold: bool) -> None:
        if isinstance(value, Enum):
            self.value(value.value, fold)
        elif isinstance(value, str | int | float | bytes):  # subclasses of the plain types
            self._parts.append(_SCALARS[_plain_base(value)](value, fold))
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {row.name: getattr(value, row.name) for row in dataclasses.fields(value)}
            self._parts.append(type(value).__name__)
            self._nested(fields, self._mapping, fold)
        elif type(value).__module__.partition(".")[0] in _AS_TEXT:
            self._parts.append(_string(str(value), False))
        else:
            raise _Uncomparable


def _plain_base(value: Any) -> type:
    return next(base for base in (str, int, float, bytes) if isinstance(value, base))


def _key(name: Any) -> str:
    if not isinstance(name, str | int | float | bool | None):
        raise _Uncomparable
    return f"{len(str(name))}{type(name).__name__[0]}{name}"


def _string(value: str, fold: bool) -> str:
    text = value.strip()
    text = text.casefold() if fold else text
    return f'"{len(text)}"{text}'


def _float(value: float, fold: bool) -> str:
    if math.isfinite(value) and value == int(value):
        return str(int(value))
    return repr(float(value))


def _integer(value: int, fold: bool) -> str:
    return hex(value) if value.bit_length() > 4096 else str(int(value))


def _bytes(value: bytes | bytearray, fold: bool) -> str:
    return "b" + hashlib.blake2b(value, digest_size=16).hexdigest()


_SCALARS: Mapping[type, Callable[[Any, bool], str]] = {
    str: _string,
    int: _integer,
    float: _float,
    bool: lambda value, fold: "T" if value else "F",
    type(None): lambda value, fold: "~",
    bytes: _bytes,
    bytearray: _bytes,
}


def fingerprint(
    tool: str,
    args: Any,
    *,
    salt: bytes,
    ignored: Collection[str] = (),
    casefold: Collection[str] = (),
) -> str | None:
    """The identity of a call within its run, or None where it has none.

    Keys sorted, strings trimmed, case folded only for the named arguments; `1` and `1.0` are one number. A string
    that holds a JSON object is read as that object. Nothing that arguments may contain makes this raise.
    """
    try:
        writer = _Writer(casefold)
        read = _parsed(args) if isinstance(args, str) else args
        if isinstance(read, Mapping):
            writer.arguments(read, ignored)
        else:
            writer.value(read)
        return _hashed(tool + "\0" + writer.text(), salt)
    except Exception:  # whatever a hostile object raises: it has no identity, and the call goes on
        return None


def result_fingerprint(result: Any, *, salt: bytes) -> str | None:
    """The identity of a result within its run; None for streams and unknown objects."""
    return fingerprint("", [result], salt=salt)


def call_key(
    tool: str,
    args: Any,
    *,
    salt: bytes,
    ignored: Collection[str] = (),
    casefold: Collection[str] = (),
) -> str | None:
    """What `fingerprint` tells apart, told apart without hashing where the arguments are few, flat and short.

    A key never leaves the process: `told` makes of it what may. Equal calls have equal keys under one policy.
    """
    if type(args) is not dict:
        args = _parsed(args) if type(args) is str else args
    if type(args) is dict and not ignored and not casefold and (text := ShortKeys().of(args)) is not None:
        return text
    return fingerprint(tool, args, salt=salt, ignored=ignored, casefold=casefold)


class ShortKeys:
    """Few flat arguments as one text, without hashing; None where they are not few, not short, or not flat.

    The calls of a tool mostly have the same names: their order is found once. Equal calls have equal texts, whatever
    was written before.
    """

    __slots__ = ("_shape",)

    def __init__(self) -> None:
        self._shape: _Shape = (0, (), "=|")

    def of(self, args: dict[Any, Any]) -> str | None:
        """The text of one call. Every part of it says how long it is, or ends where no number goes on."""
        try:
            count, order, text = self._shape
            if len(args) != count:
                return self._of_others(args)
            for name in order:
                value = args[name]
                if type(value) is str:
                    value = value.strip()
                    if len(value) > SHORT:
                        return None
                    text = f"{text}{len(value)}:{value}"
                elif type(value) is int and _LOWEST < value < _WIDE:
                    text = f"{text}={value};"
                else:
                    text = f"{text}={_written(value)};"
        except KeyError:
            return self._of_others(args)
        except Exception:  # no number, or one without end, or what a hostile object raises
            return None
        return text

    def _of_others(self, args: dict[Any, Any]) -> str | None:
        """Of other names than the last call had."""
        if len(args) > FEW or any(type(name) is not str for name in args) or sum(map(len, args)) > SHORT:
            return None
        order = tuple(sorted(args))
        self._shape = (len(order), order, "=" + "".join(f"{len(name)}:{name}" for name in order) + "|")
        return self.of(args)


_Shape = tuple[int, tuple[str, ...], str]
"""How many names, the names in order, and how a key of theirs begins."""


def _written(value: Any) -> str:
    """A number that is no integer, a truth value, or nothing at all. Raises `TypeError` on anything else."""
    if type(value) is float:
        if not _LOWEST < value < _WIDE:  # not a number is not between anything, either
            raise TypeError
        return str(int(value)) if value == int(value) else str(value)
    if type(value) is bool:
        return "T" if value else "F"
    if value is None:
        return "~"
    raise TypeError


def result_key(result: Any, salt: bytes) -> str | None:
    """What `result_fingerprint` tells apart, without hashing a short text."""
    if type(result) is str:
        text = result.strip()
        if len(text) <= SHORT:
            return "=" + text
    return result_fingerprint(result, salt=salt)


def told(tool: str, key: str | None, *, salt: bytes) -> str | None:
    """The salted hash by which a key is known outside the process; a fingerprint is one already."""
    return _hashed(f"{tool}\0{key}", salt) if key is not None and key.startswith("=") else key


def _parsed(text: str) -> Any:
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _hashed(text: str, salt: bytes) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=salt[:64], digest_size=16).hexdigest()
