"""stub"""

from typing import Any

ALL: dict[str, Any] = {}
