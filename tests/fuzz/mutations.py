"""JSON as an attacker or an accident changes it: values of other types, sizes and depths."""

import hashlib
import json
import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

# Written in the place of a string, because `json` does not write them.
_RAW = {
    "%nan%": "NaN",
    "%infinity%": "-Infinity",
    "%overflow%": "1e999",
    "%digits%": "9" * 5000,
    "%half%": '"\\ud800"',
    "%deep%": "[" * 5000 + "]" * 5000,
    "%bare%": "x",
}
_SIZES = [0, 1, -1, 2, 7, 1 << 16, 1 << 24, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 64, 10**30]
_TEXTS = ["", "x", "\0", "\u202e", "\n", "../../etc/passwd", "a" * 5000, "(a+)+$", "(", "é" * 99]
_VALUES = [None, True, False, -0.5, 0.5, 1.5, 1e308, 5e-324, [], {}, [[]], [None], {"": None}]
_VALUES += [*_SIZES, *_TEXTS, *_RAW, [0] * 2000, {"type": "x"}, {str(i): i for i in range(300)}]

Step = tuple[Any, Any]  # a dict or list, and the key or index of one of its values


def tampered(content: bytes, rng: random.Random) -> bytes:
    """Return a JSON file with one to three values changed; now and then with damaged bytes."""
    if rng.random() < 0.1:
        return _damaged(content, rng)
    value = json.loads(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        value = _edited(value, rng)
    if rng.random() < 0.7:
        _seal(value)
    text = json.dumps(value, ensure_ascii=False)
    for name, raw in _RAW.items():
        text = text.replace(f'"{name}"', raw)
    return text.encode("utf-8", "surrogatepass")


def _seal(value: Any) -> None:
    """Correct the checksum in the state.json of a checkpoint, as an attacker would."""
    if isinstance(value, dict) and isinstance(value.get("sha256"), dict):
        content = {key: value.get(key) for key in ("step", "state")}
        text = json.dumps(content, ensure_ascii=False)
        checksum = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        value["sha256"]["state"] = checksum


def _damaged(content: bytes, rng: random.Random) -> bytes:
    start, size = rng.randrange(len(content) + 1), rng.randrange(9)
    return content[:start] + rng.randbytes(rng.randrange(5)) + content[start + size :]


def _edited(value: Any, rng: random.Random) -> Any:
    places = list(_places(value))
    if not places or rng.random() < 0.02:
        return deepcopy(rng.choice(_VALUES))
    parent, key = rng.choice(places)
    edit = rng.randrange(8)
    if edit == 0:
        del parent[key]
    elif edit == 1 and isinstance(parent, dict):
        parent[rng.choice(_TEXTS)] = parent.pop(key)
    elif edit == 2:  # another value of the same file
        other, place = rng.choice(places)
        parent[key] = deepcopy(other[place])
    elif edit == 3 and isinstance(parent[key], int | float):
        parent[key] = rng.choice(
            (-parent[key], parent[key] + 1, parent[key] * 2, parent[key] * 1e3)
        )
    elif edit == 4:
        parent[key] = [parent[key]]
    else:
        parent[key] = deepcopy(rng.choice(_VALUES))
    return value


def _places(value: Any, depth: int = 0) -> Iterator[Step]:
    """Yield the places of values, of long lists and objects only the first."""
    if depth > 20 or not isinstance(value, dict | list):
        return
    for key in list(_keys(value))[:40]:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key], depth + 1)


def _keys(value: Any) -> Any:
    return value.keys() if isinstance(value, dict) else range(len(value))
