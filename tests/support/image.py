"""The image of deploy/Dockerfile, built and unpacked without a container daemon: `make image`.

In this room: a base made by debootstrap under the name that the Dockerfile asks for, buildah in a
chroot, umoci to unpack, runc to run. Everything is kept in .cache/image. Needs root on Debian.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tests.support import debian
from tests.support.maven import CACHE, ROOT, Unavailable

FOLDER: Final = CACHE / "image"
BUNDLE: Final = FOLDER / "bundle"
NAME: Final = "kafscale:test"
_POLICY: Final = FOLDER / "policy.json"
_AUTHORITIES: Final = "/etc/ssl/certs/ca-certificates.crt"


def build() -> Path:
    """Build the image and unpack it; gives the bundle for runc."""
    for program in ("debootstrap", "umoci", "buildah", "runc", "skopeo"):
        debian.program(program)
    FOLDER.mkdir(parents=True, exist_ok=True)
    _POLICY.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    _storage()
    if not (FOLDER / "base.done").exists():
        _make_base()
    _buildah(
        *("bud", "--pull-never", "--isolation", "chroot", "--network", "host"),
        *("--volume", f"{_AUTHORITIES}:{_AUTHORITIES}:ro"),
        *("--ignorefile", "deploy/Dockerfile.dockerignore", "--file", "deploy/Dockerfile"),
        *("--tag", NAME, "."),
    )
    _run("rm", "-rf", str(FOLDER / "oci"), str(BUNDLE))
    _buildah("push", NAME, f"oci:{FOLDER / 'oci'}:kafscale")
    _run("umoci", "unpack", "--image", f"{FOLDER / 'oci'}:kafscale", str(BUNDLE))
    return BUNDLE


def configure(bundle: Path, args: list[str], env: dict[str, str]) -> None:
    """Say what runs: as the image's user, on a read-only root, without any capability."""
    file = bundle / "config.json"
    config: dict[str, Any] = json.loads(file.read_text())
    process = config["process"]
    process["terminal"] = False
    process["args"] = ["kafscale", *args]
    process["noNewPrivileges"] = True
    process["env"] += [f"{name}={value}" for name, value in env.items()]
    process["capabilities"] = {key: [] for key in process["capabilities"]}
    config["root"]["readonly"] = True
    spaces = config["linux"]["namespaces"]
    config["linux"]["namespaces"] = [one for one in spaces if one["type"] != "network"]
    options = ["nosuid", "nodev", "mode=0700", "uid=10001", "gid=10001"]
    config["mounts"] += [
        {"destination": path, "type": "tmpfs", "source": "tmpfs", "options": options}
        for path in ("/tmp", "/var/lib/kafscale")
    ]
    file.write_text(json.dumps(config))


def _make_base() -> None:
    """A root file system with Python, under the name of the Dockerfile's base."""
    root, layout = FOLDER / "rootfs", FOLDER / "base"
    _run("rm", "-rf", str(root), str(layout))
    packages = "python3-minimal,python3-venv,ca-certificates"
    what = ["--variant=minbase", f"--include={packages}", "bookworm", str(root)]
    _run("debootstrap", *what)
    (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    _run("umoci", "init", "--layout", str(layout))
    _run("umoci", "new", "--image", f"{layout}:base")
    _run("umoci", "insert", "--image", f"{layout}:base", str(root), "/")
    wanted = re.search(r"^FROM (\S+)", (ROOT / "deploy/Dockerfile").read_text(), re.MULTILINE)
    assert wanted is not None
    name = f"containers-storage:localhost/{wanted[1]}"
    _run("skopeo", "--policy", str(_POLICY), "copy", f"oci:{layout}:base", name)
    _run("rm", "-rf", str(root))
    (FOLDER / "base.done").touch()


def _storage() -> None:
    text = (
        f'[storage]\ndriver = "vfs"\ngraphroot = "{FOLDER / "graph"}"\n'
        f'runroot = "{FOLDER / "run"}"\n'
    )
    (FOLDER / "storage.conf").write_text(text)


def _buildah(action: str, *words: str) -> str:
    return _run("buildah", action, "--signature-policy", str(_POLICY), *words)


def _run(*command: str) -> str:
    env = {**os.environ, "CONTAINERS_STORAGE_CONF": str(FOLDER / "storage.conf")}
    run = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=1800
    )
    if run.returncode:
        raise Unavailable(f"{' '.join(command[:2])} failed: {(run.stdout + run.stderr)[-3000:]}")
    return run.stdout


def main() -> None:
    """Build it and print its size."""
    try:
        bundle = build()
    except Unavailable as problem:
        sys.exit(str(problem))
    size = sum(path.stat().st_size for path in (FOLDER / "oci/blobs/sha256").iterdir())
    print(f"{bundle}: {size >> 20} MB packed")


if __name__ == "__main__":
    main()
