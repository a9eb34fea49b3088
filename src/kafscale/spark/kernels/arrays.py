"""The types of numpy arrays, named once for everything that works on columns."""

import numpy as np
import numpy.typing as npt

ByteArray = npt.NDArray[np.uint8]
IntArray = npt.NDArray[np.int32]
LongArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
