"""The parts of the package that are compiled, if mypy and a C compiler are there.

All else about the package is in pyproject.toml. Without these extensions the package is whole, and
slower where it checks records of mixed sizes (src/kafscale/records/walk.py) and where it converts
records of Fluvio clients (src/kafscale/gateways/fluvio/records/splice.py) and of Pulsar clients
(src/kafscale/gateways/pulsar/messages/splice.py and sends.py).
"""

from setuptools import Extension, setup

COMPILED = [
    "src/kafscale/records/walk.py",
    "src/kafscale/gateways/fluvio/records/splice.py",
    "src/kafscale/gateways/pulsar/messages/splice.py",
    "src/kafscale/gateways/pulsar/messages/sends.py",
]


def extensions() -> list[Extension]:
    """What to compile; nothing where mypy is not installed."""
    try:
        from mypyc.build import mypycify
    except ImportError:
        return []
    found = mypycify(COMPILED, opt_level="3", debug_level="0", separate=True)
    for extension in found:
        extension.optional = True  # no compiler: a warning, and the package without it
    return found


setup(ext_modules=extensions())
