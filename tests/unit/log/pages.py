"""Pages of docs/formats, held against the code they describe."""

import re
import struct
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[3]


def table(page: str, heading: str) -> list[tuple[int, int, str]]:
    """(offset, size, field) of the byte table that first follows a heading or sentence."""
    text = (ROOT / "docs/formats" / page).read_text().split(heading, 1)[1]
    rows = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert rows is not None
    found = re.findall(r"^\| (\d+) \| (\d+) \| (\w+) \|", rows[0], re.MULTILINE)
    return [(int(offset), int(size), name) for offset, size, name in found]


def fields(page: str, heading: str) -> list[str]:
    """The first column of the table that follows a heading."""
    text = (ROOT / "docs/formats" / page).read_text().split(heading, 1)[1]
    rows = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert rows is not None
    return re.findall(r"^\| (\w+) \|", rows[0], re.MULTILINE)[1:]


def layout(module: ModuleType, name: str) -> list[tuple[int, int, str]]:
    """(offset, size, field) of a struct, by its format and the comments beside its letters."""
    source = Path(module.__file__ or "").read_text()
    body = re.search(rf"^{name}: Final = struct.Struct\((.*?)^\)", source, re.M | re.S)
    assert body is not None
    letters = re.findall(r'^\s+"(\w+)"\s+#\s+(\d+) (\w+)', body[1], re.MULTILINE)
    packed: struct.Struct = getattr(module, name)
    assert packed.format == ">" + "".join(letter for letter, _, _ in letters)
    found = []
    place = 0
    for letter, offset, field in letters:
        assert int(offset) == place, f"{name}: the comment on {field}"
        found.append((place, struct.calcsize(">" + letter), field))
        place += struct.calcsize(">" + letter)
    return found
