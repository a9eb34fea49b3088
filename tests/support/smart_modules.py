"""SmartModules, built by Rust from Fluvio's own crate for WebAssembly.

    python -m tests.support.smart_modules      (make smart-modules)

Rust's library for WebAssembly comes with rustup's target, if that was added. Otherwise Debian's
packages have the library's source and a compiler of its version: they are unpacked into the cache
beside the modules, and the library is built, too. That takes minutes, so that tests use what was
built and are skipped otherwise.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.cargo import built
from tests.support.maven import CACHE, ROOT, Unavailable

SOURCES: Final = ROOT / "tests/support/rust/smart-modules"
FOLDER: Final = CACHE / "smart-modules"
MODULES: Final = ("filter", "filter-init", "map", "filter-map", "array-map", "aggregate")
_TARGET: Final = "wasm32-unknown-unknown"
_PACKAGES: Final = ("rustc-web", "rust-web-src")
_NEEDED: Final = ("libstd-rust-web", "libllvm")  # of what the packages depend on


def smart_module(name: str) -> Path:
    """A module that was built. Raises Unavailable."""
    found = FOLDER / f"{name}.wasm"
    if not found.exists():
        raise Unavailable("SmartModules are not built: make smart-modules")
    return found


def build() -> None:
    """Build all modules. Raises Unavailable."""
    options = ["--release", "--target", _TARGET]
    environment: dict[str, str] = {}
    if not _has_target():
        options += ["-Zbuild-std=std,panic_abort"]
        environment = _debian_compiler()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in MODULES:
        target = built(SOURCES, *options, "--features", name, environment=environment)
        shutil.copy(target / _TARGET / "release/smart_modules.wasm", FOLDER / f"{name}.wasm")
        print(f"{name}: {(FOLDER / f'{name}.wasm').stat().st_size} bytes")


def _has_target() -> bool:
    rustc = shutil.which("rustc")
    if rustc is None:
        raise Unavailable("rustc is not installed")
    return (_sysroot(rustc) / "lib/rustlib" / _TARGET).exists()


def _sysroot(rustc: str) -> Path:
    done = subprocess.run([rustc, "--print", "sysroot"], capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())


def _debian_compiler() -> dict[str, str]:
    """The environment in which cargo uses Debian's compiler, from a folder of the cache."""
    root = FOLDER / "debian"
    if not root.exists():
        _unpack(root)
    libraries = [root / "usr/lib/x86_64-linux-gnu", *root.glob("usr/lib/llvm-*/lib")]
    rustc = shutil.which("rustc")
    assert rustc is not None
    (linker,) = _sysroot(rustc).glob("lib/rustlib/*/bin/rust-lld")
    return {
        "LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries)),
        "RUSTC": str(root / "usr/bin/rustc"),
        "RUSTC_BOOTSTRAP": "1",
        "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER": str(linker),
    }


def _unpack(root: Path) -> None:
    if shutil.which("apt-get") is None:
        raise Unavailable(f"Rust's target {_TARGET} is not installed, and this is no Debian")
    packages = FOLDER / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    names = sorted({*_PACKAGES, *(name for one in _PACKAGES for name in _depends(one))})
    _run("apt-get", "download", *names, folder=packages)
    making = root.with_name("unpacking")
    for package in packages.glob("*.deb"):
        _run("dpkg", "-x", str(package), str(making), folder=packages)
    (source,) = making.glob("usr/src/rustc-*")
    link = making / "usr/lib/rustlib/src/rust"
    link.unlink(missing_ok=True)
    link.symlink_to(root / source.relative_to(making))
    making.rename(root)


def _depends(package: str) -> Iterator[str]:
    for line in _run("apt-cache", "depends", package, folder=FOLDER).splitlines():
        kind, _, name = line.strip().partition(": ")
        if kind == "Depends" and name.startswith(_NEEDED):
            yield name
            yield from _depends(name)


def _run(*command: str, folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"{' '.join(command[:2])}: {done.stderr[-500:]}")
    return done.stdout


if __name__ == "__main__":
    try:
        build()
    except Unavailable as reason:
        sys.exit(str(reason))
