"""Files have one reason to change, and a folder says what it holds.

`make lint` warns at 400 lines; 600 are the ceiling. A room of many files has sub-rooms.
"""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
CEILING: Final = 600
MOST_FILES: Final = 16
LISTS: Final = ("gateways/kafka/apis", "wire/kafka/messages")  # one file for each of Kafka's APIs


def test_no_file_is_beyond_the_ceiling() -> None:
    lines = {
        module.relative_to(ROOT).as_posix(): module.read_text("utf-8").count("\n")
        for folder in ("src", "tests", "benchmarks")
        for module in (ROOT / folder).rglob("*.py")
    }
    assert {name: count for name, count in lines.items() if count > CEILING} == {}


def test_a_room_with_many_files_has_sub_rooms() -> None:
    package = ROOT / "src/kafscale"
    files = {
        folder.relative_to(package).as_posix(): len(set(folder.glob("[!_]*.py")))
        for folder in (package, *package.rglob("*/"))
    }
    flat = {name: count for name, count in files.items() if count > MOST_FILES}
    assert flat.keys() == set(LISTS), flat
