"""Every fast way to check the records of a batch, in one shape, so that tests compare them.

The compiled walk is among them where it was built (`make setup`); the same source is there as
plain Python in any case.
"""

from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import kafscale.records
from kafscale.model.errors import InvalidRecord
from kafscale.records import strides, walk

Check = Callable[[bytes, int, int, bool], None]


def _as_python() -> Any:
    """The walk's source, run by the interpreter."""
    path = Path(kafscale.records.__file__).with_name("walk.py")
    loader = SourceFileLoader("walk_as_python", str(path))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def _refusing(are_sound: Callable[[bytes, int, int, bool], bool]) -> Check:
    def check(data: bytes, at: int, count: int, require_key: bool) -> None:
        if not are_sound(data, at, count, require_key):
            raise InvalidRecord("refused by the walk alone")

    return check


FAST_WALKS: dict[str, Check] = {
    "check_records": strides.check_records,
    "strides": strides.check_by_strides,
    "walk as Python": _refusing(_as_python().are_sound),
}
if strides.WALK_IS_COMPILED:
    FAST_WALKS["walk compiled"] = _refusing(walk.are_sound)
