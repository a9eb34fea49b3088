"""The choice of a finder: the compiled one where numba is installed, else the plain one."""

from kafscale.spark.kernels.positions import PositionFinder
from kafscale.spark.kernels.positions_plain import PlainFinder


def position_finder(fast: bool | None = None) -> PositionFinder:
    """The compiled finder where numba is installed, else the plain one; or the one asked for."""
    if fast is False:
        return PlainFinder()
    try:
        from kafscale.spark.kernels.positions_jit import JitFinder
    except ImportError:
        if fast:
            raise
        return PlainFinder()
    return JitFinder()
