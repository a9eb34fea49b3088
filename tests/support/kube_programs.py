"""The control plane of a real Kubernetes, helm and kubectl, built once from the Go proxy.

`make kube` builds them into .cache (850 seconds of one core); tests that need them are skipped with
that hint where they are not there.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.support.maven import CACHE, Unavailable

KUBERNETES: Final = "v1.36.3"
STAGING: Final = "v0.36.3"
ETCD: Final = "v3.6.8"
HELM: Final = "v3.22.0"
FOLDER: Final = CACHE / "kube" / KUBERNETES
CONTROL_PLANE: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
_VERSION: Final = "k8s.io/component-base/version"


def build(names: list[str]) -> None:
    """Build what is not there yet."""
    if shutil.which("go") is None:
        raise Unavailable("go is not installed")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in names:
        if (FOLDER / name).exists():
            continue
        print(f"building {name} ...", flush=True)
        if name == "etcd":
            _build_etcd()
        elif name == "helm":
            _go(FOLDER, "install", f"helm.sh/helm/v3/cmd/helm@{HELM}")
        else:
            _build_kubernetes(name)
        print(f"{name}: {(FOLDER / name).stat().st_size >> 20} MB", flush=True)


def _build_kubernetes(name: str) -> None:
    source = CACHE / "kube" / "source"
    if not (source / "go.sum").exists():
        source.mkdir(parents=True, exist_ok=True)
        _write_module(source)
        _go(source, "mod", "tidy")
    number = KUBERNETES.removeprefix("v")
    major, minor, _ = number.split(".")
    flags = {
        "gitVersion": KUBERNETES,
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
    }
    link = " ".join(f"-X {_VERSION}.{key}={value}" for key, value in flags.items())
    package = f"k8s.io/kubernetes/cmd/{name}"
    _go(
        source,
        "build",
        "-trimpath",
        "-o",
        str(FOLDER / f"{name}.part"),
        f"-ldflags=-s -w {link}",
        package,
    )
    (FOLDER / f"{name}.part").rename(FOLDER / name)


def _write_module(source: Path) -> None:
    """Kubernetes names its own parts by folders that are not in the archive: name the modules."""
    _go(source, "mod", "download", f"k8s.io/kubernetes@{KUBERNETES}")
    cache = _go(source, "env", "GOMODCACHE").strip()
    own = Path(cache, "cache/download/k8s.io/kubernetes/@v", f"{KUBERNETES}.mod").read_text()
    go = re.search(r"^go (\S+)", own, re.MULTILINE)
    assert go is not None
    replaced = re.findall(r"^\s*(\S+) => \./staging", own, re.MULTILINE)
    lines = [f"\t{name} => {name} {STAGING}" for name in replaced]
    (source / "go.mod").write_text(
        f"module kubernetes_programs\n\ngo {go[1]}\n\nrequire k8s.io/kubernetes {KUBERNETES}\n\n"
        "replace (\n" + "\n".join(lines) + "\n)\n"
    )
    imports = "".join(
        f'\t_ "k8s.io/kubernetes/cmd/{name}"\n' for name in (*CONTROL_PLANE, "kubectl")
    )
    (source / "tools.go").write_text(f"//go:build tools\n\npackage tools\n\nimport (\n{imports})\n")


def _build_etcd() -> None:
    source = CACHE / "kube" / "etcd-source"
    source.mkdir(parents=True, exist_ok=True)
    (source / "go.mod").write_text(
        f"module etcd_program\n\ngo 1.24\n\nrequire go.etcd.io/etcd/server/v3 {ETCD}\n"
    )
    (source / "tools.go").write_text(
        '//go:build tools\n\npackage tools\n\nimport _ "go.etcd.io/etcd/server/v3"\n'
    )
    _go(source, "mod", "tidy")
    _go(
        source,
        "build",
        "-trimpath",
        "-o",
        str(FOLDER / "etcd.part"),
        "-ldflags=-s -w",
        "go.etcd.io/etcd/server/v3",
    )
    (FOLDER / "etcd.part").rename(FOLDER / "etcd")


def _go(folder: Path, *arguments: str) -> str:
    own = CACHE / "kube"
    env = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOBIN": str(FOLDER),
        "GOCACHE": str(own / "build-cache"),
        "GOMODCACHE": str(own / "modules"),
        "GOFLAGS": f"-modcacherw -p={os.environ.get('KUBE_BUILD_JOBS', '2')}"
        if arguments[0] in ("build", "install")
        else "-modcacherw",
    }
    run = subprocess.run(
        ["go", *arguments],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        raise Unavailable(f"go {arguments[0]} failed: {run.stderr[-2000:]}")
    return run.stdout


def main() -> None:
    """Build what the command line names, else all that tests need; then drop Go's caches."""
    try:
        build(sys.argv[1:] or [*CONTROL_PLANE, "etcd", "helm", "kubectl"])
    except Unavailable as problem:
        sys.exit(str(problem))
    if not sys.argv[1:]:
        for folder in ("build-cache", "modules", "source", "etcd-source"):
            shutil.rmtree(CACHE / "kube" / folder, ignore_errors=True)


if __name__ == "__main__":
    main()
