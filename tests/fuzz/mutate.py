"""Seeded damage to real files: bytes flipped, cut, repeated, made extreme, exchanged; texts with other values."""

import json
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from structures import FORMS

EXTREMES = [b"\x00", b"\xff", b"\xff\xff\xff\x7f", b"\xff" * 8, b"\x00" * 64, b"\x80\x00\x00\x00", b"-1", b"NaN",
            b"1e999", b"[" * 2000, b"(" * 2000, b"\n", b'"', b",", b"\\", b"\xf0\x9f\xa6\x8a", b"../../", b"/etc\n"]
VALUES = [None, True, -1, 0, 1, 2**31, 2**63, 1e30, -1e-30, "", "x" * 5000, "nan", [], {}, [[[[]]]], {"a": {"b": 1}}]


def mutated(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """One to four kinds of damage, one after another; half of the time what a file means is damaged, not its form."""
    change = next((change for is_form, change in FORMS.values() if is_form(content)), None)
    if change is not None and rng.random() < 0.5:
        return change(content, rng)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        content = rng.choice(DAMAGES)(content, others, rng)
    return content


def flip(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """Some bytes become others."""
    changed = bytearray(content or b"\0")
    for _ in range(rng.choice([1, 2, 8, 64])):
        changed[place(changed, rng)] = rng.randrange(256)
    return bytes(changed)


def cut(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """The end is missing, or a part in the middle."""
    start = place(content, rng)
    return content[:start] + (content[start + rng.choice([1, 7, 100]):] if rng.random() < 0.5 else b"")


def repeat(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """A part comes again, up to a thousand times."""
    start = place(content, rng)
    part = content[start:start + rng.choice([1, 4, 30])]
    return content[:start] + part * rng.choice([2, 10, 1000]) + content[start:]


def overwrite(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """An extreme value lies over or between the bytes."""
    start, extreme = place(content, rng), rng.choice(EXTREMES)
    return content[:start] + extreme + content[start + rng.choice([0, len(extreme)]):]


def splice(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """The beginning of one file and the end of another."""
    other = rng.choice(others)
    return content[:place(content, rng)] + other[place(other, rng):]


def change_text(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """A number or a word in a text becomes another one."""
    found = list(re.finditer(rb"-?\d+(\.\d+)?|\w+", content[:20_000]))
    if not found:
        return flip(content, others, rng)
    match = rng.choice(found)
    value = str(rng.choice([-1, 0, 10**9, 1e30, "", "x" * 300, "NaN"])).encode()
    return content[:match.start()] + value + content[match.end():]


def change_json(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """In the JSON of a file, or of the header of a safetensors file, one value becomes another one."""
    size = int.from_bytes(content[:8], "little")
    start, end = (8, 8 + size) if 0 < size < len(content) else (0, len(content))
    try:
        tree = json.loads(content[start:end])
        texts = tree.get("__metadata__", {}) if isinstance(tree, dict) else {}
        inner = next((key for key, text in texts.items() if text.startswith("{")), None)
        if inner is not None and rng.random() < 0.8:
            about = json.loads(texts[inner])
            change_value(about, rng)
            texts[inner] = json.dumps(about)
        else:
            change_value(tree, rng)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return flip(content, others, rng)
    text = json.dumps(tree).encode()
    text += b" " * (-len(text) % 8 if start else 0)           # as safetensors wants its header
    return (len(text).to_bytes(8, "little") if start else b"") + text + content[end:]


def change_value(tree: object, rng: random.Random) -> None:
    """Change, remove or add one value somewhere in a tree of dicts and lists."""
    keys = list(tree) if isinstance(tree, dict) else list(range(len(tree))) if isinstance(tree, list) else []
    if not keys:
        return
    key = rng.choice(keys)
    value = tree[key]
    if isinstance(value, dict | list) and value and rng.random() < 0.8:
        change_value(value, rng)
    elif rng.random() < 0.15:
        del tree[key]
    else:
        tree[key] = rng.choice(VALUES)


def place(content: bytes, rng: random.Random) -> int:
    """A place in the file, half of the time near its beginning, where headers are."""
    most = len(content) if rng.random() < 0.5 else min(len(content), 400)
    return rng.randrange(max(1, most))


DAMAGES: list[Callable[[bytes, list[bytes], random.Random], bytes]] = [
    flip, cut, repeat, overwrite, splice, change_text, change_json, change_json]
