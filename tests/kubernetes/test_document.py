"""The ten commands of docs/operating/kubernetes.md lead to a cluster that keeps and gives records.

`kafscale` is the program itself. On the real control plane `kubectl` is the program itself, too; on
the fakes the tests' own client plays it. The chart is installed by the real helm next door
(test_control_plane.py).
"""

import asyncio
import sys
from typing import Any

import pytest
import yaml

from tests.support.kubernetes.cluster import PATIENCE_S, TestKubernetes
from tests.support.kubernetes.document import ROOT, commands, kubectl, option
from tests.support.kubernetes.real_cluster import KUBECTL, RealKubernetes
from tests.support.seaweed import ACCESS_KEY, SECRET_KEY

pytestmark = [pytest.mark.kubernetes, pytest.mark.real_time, pytest.mark.timeout(1200)]

KEYS = {"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}
KINDS = {"kfs": "KafscaleCluster", "kt": "KafscaleTopic", "kfu": "KafscaleUser"}


async def test_ten_commands_lead_from_nothing_to_records(kubernetes: TestKubernetes) -> None:
    if isinstance(kubernetes, RealKubernetes) and not KUBECTL.exists():
        pytest.skip("kubectl is not built: run `make kube` once")
    await kubernetes.start_operator()  # as `helm install` does
    done = []
    for words in commands()[:10]:
        if words[0] == "kubectl" and isinstance(kubernetes, RealKubernetes):
            done.append(await _real_kubectl(kubernetes, words))
        elif words[0] == "kubectl":
            done.append(await _kubectl(kubernetes, words))
        elif words[0] == "kafscale":
            done.append(await _kafscale(kubernetes, words, b"first\n"))
    assert done[-1] == "first\n"
    assert {"secret", "apply", "wait"} <= set(done)


async def _real_kubectl(kubernetes: RealKubernetes, words: list[str]) -> str:
    """Run a command as it stands, for the namespace, the keys and the bucket of this test."""
    verb, rest = kubectl(words)
    if verb == "run":
        return verb  # a shell in a pod: no pod here has a terminal
    if verb == "apply":
        sample = kubernetes.folder / "sample.yaml"
        sample.write_text(yaml.safe_dump(_placed(kubernetes, option(rest, "-f"))))
        rest = ["-f", str(sample)]
    asked = [word.replace("=...", f"={KEYS.get(_literal(word), '')}") for word in rest]
    await kubernetes.kubectl(verb, *asked)
    return "secret" if rest[0] == "secret" else verb


def _literal(word: str) -> str:
    return word.removeprefix("--from-literal=").partition("=")[0]


async def _kubectl(kubernetes: TestKubernetes, words: list[str]) -> str:
    verb, rest = kubectl(words)
    if verb == "create" and rest[:2] == ["secret", "generic"]:
        kubernetes.apply_secret(rest[2], **{name: KEYS[name] for name in map(_literal, rest[3:])})
        return "secret"
    if verb == "apply":
        kubernetes.api.create(_placed(kubernetes, option(rest, "-f")))
    elif verb == "wait":
        for one in (word for word in rest if "/" in word):
            kind, _, name = one.partition("/")
            await kubernetes.until(
                one,
                lambda kind=KINDS[kind], name=name: kubernetes.is_so(kind, name),  # type: ignore[misc]
                2 * PATIENCE_S,
            )
    return verb


def _placed(kubernetes: TestKubernetes, file: str) -> dict[str, Any]:
    """A sample, in the namespace and on the bucket of this test."""
    found: dict[str, Any] = yaml.safe_load((ROOT / file).read_text())
    found["metadata"]["namespace"] = kubernetes.namespace
    if found["kind"] == "KafscaleCluster":
        own = kubernetes.cluster_spec("production")
        found["spec"]["s3"] |= {key: own["s3"][key] for key in ("bucket", "endpoint")}
        found["spec"]["config"]["broker"] = own["config"]["broker"]
    return found


async def _kafscale(kubernetes: TestKubernetes, words: list[str], data: bytes) -> str:
    own = [word.replace(".kafscale.svc", f".{kubernetes.namespace}.svc") for word in words[1:]]
    program = [sys.executable, "-m", "kafscale.cli.main"]
    process = await asyncio.create_subprocess_exec(
        *kubernetes.names.inside(*program, *own),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            out, err = await process.communicate(data)
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, f"{err.decode()[-3000:]}\n{kubernetes.story()}"
    return out.decode()
