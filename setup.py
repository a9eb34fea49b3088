"""The one part of the package that is compiled, if mypy and a C compiler are there.

All else about the package is in pyproject.toml. Without this extension the package is whole, and
slower where it checks records of mixed sizes (src/kafscale/records/walk.py).
"""

from setuptools import Extension, setup

COMPILED = "src/kafscale/records/walk.py"


def extensions() -> list[Extension]:
    """What to compile; nothing where mypy is not installed."""
    try:
        from mypyc.build import mypycify
    except ImportError:
        return []
    found = mypycify([COMPILED], opt_level="3", debug_level="0")
    for extension in found:
        extension.optional = True  # no compiler: a warning, and the package without it
    return found


setup(ext_modules=extensions())
