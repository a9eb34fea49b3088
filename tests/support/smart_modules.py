"""SmartModules, built by Rust from Fluvio's own crate for WebAssembly.

    python -m tests.support.smart_modules      (make smart-modules)

Rust's library for WebAssembly comes with rustup's target. If the toolchain has none, rustup adds it
to a folder of the cache, and the toolchain stays as it is. Tests build the modules that way.
Without rustup, Debian's packages have the library's source and a compiler of its version: the
program above unpacks them into the cache and builds the library, too. That takes minutes, so that
no test does it.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.support.cargo import built, is_built, locked
from tests.support.maven import CACHE, ROOT, Unavailable

SOURCES: Final = ROOT / "tests/support/rust/smart-modules"
FOLDER: Final = CACHE / "smart-modules"
_TARGET: Final = "wasm32-unknown-unknown"
_OPTIONS: Final = ("--release", "--examples", "--target", _TARGET)
_WITH_LIBRARY: Final = (*_OPTIONS, "-Zbuild-std=std,panic_abort")
_FETCH_WITHIN_S: Final = 120
_PACKAGES: Final = ("rustc-web", "rust-web-src")
_NEEDED: Final = ("libstd-rust-web", "libllvm")  # of what the packages depend on


def smart_module(name: str) -> Path:
    """A module, built at the first call. Raises Unavailable."""
    if is_built(SOURCES, *_WITH_LIBRARY):
        target = built(SOURCES, *_WITH_LIBRARY)
    else:
        target = built(SOURCES, *_OPTIONS, environment=_library())
    return target / _TARGET / "release/examples" / f"{name.replace('-', '_')}.wasm"


def build() -> None:
    """Build all modules, by Debian's compiler if there is no other way. Raises Unavailable."""
    try:
        path = smart_module("filter")
    except Unavailable as reason:
        print(f"{reason}; trying Debian's compiler", file=sys.stderr)
        built(SOURCES, *_WITH_LIBRARY, environment=_debian_compiler())
        path = smart_module("filter")
    for module in sorted(path.parent.glob("*.wasm")):
        if "-" not in module.stem:  # cargo keeps each under a second name
            print(f"{module.stem}: {module.stat().st_size} bytes")


def _library() -> Mapping[str, str]:
    """The environment in which cargo finds Rust's library for WebAssembly. Raises Unavailable."""
    rustc = shutil.which("rustc")
    if rustc is None:
        raise Unavailable("rustc is not installed")
    toolchain = _sysroot(rustc)
    if (toolchain / "lib/rustlib" / _TARGET).exists():
        return {}
    folder = FOLDER / "rustup"
    root = folder / "toolchains" / toolchain.name
    with locked(FOLDER):
        if not (root / "lib/rustlib" / _TARGET).exists():
            _add_target(toolchain, folder, root)
    return {"CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS": f"--sysroot={root}"}


def _add_target(toolchain: Path, folder: Path, root: Path) -> None:
    """Let rustup add the target to what it takes for a toolchain: a copy of the list of parts."""
    rustup = shutil.which("rustup")
    if rustup is None:
        raise Unavailable(f"Rust's target {_TARGET} is not installed, and neither is rustup")
    shutil.rmtree(root, ignore_errors=True)
    (root / "lib/rustlib").mkdir(parents=True)
    for part in (toolchain / "lib/rustlib").iterdir():
        if part.is_file():
            shutil.copy(part, root / "lib/rustlib")
    command = (rustup, "target", "add", _TARGET, "--toolchain", toolchain.name)
    _run(*command, folder=root, environment={"RUSTUP_HOME": str(folder)})


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


def _run(*command: str, folder: Path, environment: Mapping[str, str] | None = None) -> str:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=_FETCH_WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{' '.join(command[:2])}: no end in {_FETCH_WITHIN_S} s") from None
    if done.returncode:
        raise Unavailable(f"{' '.join(command[:2])}: {done.stderr[-500:]}")
    return done.stdout


if __name__ == "__main__":
    try:
        build()
    except Unavailable as reason:
        sys.exit(str(reason))
