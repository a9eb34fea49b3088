"""A kubelet whose pods are processes of this machine, each on a loopback address of its own.

It has: images as a table of programs, init containers, variables (values, fields, Secrets), volumes
as folders (their paths in arguments and variables are replaced), the readiness probe, restarts with
a growing pause, the message of a process that ended, SIGTERM and the grace period.
Names of pods and Services are in a hosts file that programs see in the place of /etc/hosts.
"""

import asyncio
import base64
import contextlib
import itertools
import os
import re
import shutil
import signal
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from tests.support.kubernetes.fake_api import Object
from tests.support.kubernetes.fake_controllers import is_ready
from tests.support.program import dying_with_us

NETWORK = f"127.{10 + os.getpid() % 200}"  # tests beside each other do not meet
NODE = "node-1"
ACCOUNT = "/run/secrets/kubernetes.io/serviceaccount"


class Objects(Protocol):
    """What a kubelet needs of an API server."""

    def get(self, kind: str, namespace: str, name: str) -> Object | None: ...

    def all_of(self, kind: str, namespace: str = "", **labels: str) -> list[Object]: ...

    def set_status(self, found: Object, status: Object) -> None: ...

    def delete(self, kind: str, namespace: str, name: str, *, now: bool = False) -> None: ...


class Names:
    """A hosts file, and a mount namespace in which it is /etc/hosts.

    What is in `account` is where programs look for the account of their pod.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / "hosts"
        self.account = folder / "account"
        self.account.mkdir()
        self._rows: dict[tuple[str, str], None] = {}
        self._holder: asyncio.subprocess.Process | None = None
        self._write()

    async def open(self) -> None:
        script = (
            f"mount --bind {self.file} /etc/hosts && mount -t tmpfs tmpfs /run "
            f"&& mkdir -p {ACCOUNT} && mount --bind {self.account} {ACCOUNT} "
            "&& echo ready && exec sleep infinity"
        )
        self._holder = await asyncio.create_subprocess_exec(
            *("unshare", "--mount", "--propagation", "private", "sh", "-c", script),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        if await self._holder.stdout.readline() != b"ready\n":
            raise PermissionError("this user cannot make a mount namespace")

    async def close(self) -> None:
        if self._holder is not None and self._holder.returncode is None:
            self._holder.kill()
            await self._holder.wait()

    def inside(self, *command: str) -> list[str]:
        """The command, run where the names are known."""
        assert self._holder is not None
        enter = ["nsenter", "-t", str(self._holder.pid), "-m", "--wd=/tmp", "--"]
        return dying_with_us([*enter, *command])

    def put(self, name: str, address: str) -> None:
        self._rows[name, address] = None
        self._write()

    def drop(self, address: str) -> None:
        self._rows = {row: None for row in self._rows if row[1] != address}
        self._write()

    def _write(self) -> None:
        text = "127.0.0.1 localhost\n" + "".join(f"{ip} {name}\n" for name, ip in self._rows)
        # In place: a bind mount is of this very file.
        with self.file.open("r+b" if self.file.exists() else "wb") as file:
            file.write(text.encode())
            file.truncate()


class Kubelet:
    """Runs the pods of some nodes. `programs`: what each image is."""

    def __init__(
        self,
        api: Objects,
        names: Names,
        folder: Path,
        programs: dict[str, list[str]],
        nodes: Sequence[str] = (NODE,),
        network: str = NETWORK,
    ) -> None:
        self._api = api
        self._names = names
        self._folder = folder
        self.programs = programs
        self.env: dict[str, str] = {}  # what every pod is told
        self._network = network
        self._nodes = set(nodes)
        self._pods: dict[str, asyncio.Task[None]] = {}  # by uid
        self._count = 1
        self.processes: dict[str, asyncio.subprocess.Process] = {}  # by the name of the pod
        self.restarts: dict[str, int] = {}
        self._relays: dict[str, list[asyncio.Server]] = {}
        self._passing: set[asyncio.StreamWriter] = set()  # both ends of what relays pass on

    @property
    def node_address(self) -> str:
        """Where ports of nodes are: one address stands for every node."""
        return f"{self._network}.4.1"

    async def run(self) -> None:
        try:
            while True:
                for pod in self._api.all_of("Pod"):
                    uid = pod["metadata"]["uid"]
                    if uid not in self._pods and pod["spec"].get("nodeName") in self._nodes:
                        self._pods[uid] = asyncio.create_task(self._life(pod))
                for service in self._api.all_of("Service"):
                    await self._serve(service)
                await asyncio.sleep(0.1)
        finally:
            for task in self._pods.values():
                task.cancel()
            await asyncio.gather(*self._pods.values(), return_exceptions=True)
            for server in itertools.chain.from_iterable(self._relays.values()):
                server.close()
            for writer in self._passing:
                writer.transport.abort()
            await asyncio.sleep(0)  # until their transports are told

    async def lose_node(self, node: str) -> None:
        """End a node and all that runs on it, without a word to the API server."""
        self._nodes.discard(node)
        for pod in self._api.all_of("Pod"):
            task = self._pods.get(pod["metadata"]["uid"])
            if task is not None and pod["spec"].get("nodeName") == node:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    # -- Services ----------------------------------------------------------------------------

    async def _serve(self, service: Object) -> None:
        name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
        is_followed = bool(service["spec"].get("selector"))  # others lead to no pods
        is_headless = service["spec"].get("clusterIP") == "None"
        if not is_followed or is_headless or f"{namespace}/{name}" in self._relays:
            return
        self._count += 1
        address = service["spec"].get("clusterIP") or f"{self._network}.1.{self._count}"
        self._names.put(f"{name}.{namespace}.svc", address)
        port = service["spec"]["ports"][0]["port"]

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            live = self._api.get("Service", namespace, name)
            wanted = (live or service)["spec"]["selector"]
            ready = [pod for pod in self._api.all_of("Pod", namespace, **wanted) if is_ready(pod)]
            if not ready:
                writer.transport.abort()
                return
            self._passing.add(writer)
            try:
                to = await asyncio.open_connection(ready[0]["status"]["podIP"], port)
                self._passing.add(to[1])
                await asyncio.gather(_copy(reader, to[1]), _copy(to[0], writer))
                self._passing.discard(to[1])
            except OSError:
                writer.transport.abort()
            self._passing.discard(writer)

        places = [(address, port)]
        if node_port := service["spec"]["ports"][0].get("nodePort"):
            places.append((self.node_address, node_port))
        for at in places:
            # Known before it listens: a kubelet that ends in between closes it.
            server = await asyncio.start_server(relay, *at, start_serving=False)
            self._relays.setdefault(f"{namespace}/{name}", []).append(server)
            await server.start_serving()

    # -- pods --------------------------------------------------------------------------------

    async def _life(self, pod: Object) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        name, namespace = metadata["name"], metadata["namespace"]
        self._count += 1
        address = f"{self._network}.0.{self._count}"
        service = spec.get("subdomain") or _headless(self._api, pod)
        if service:
            self._names.put(f"{name}.{service}.{namespace}.svc", address)
            self._names.put(f"{service}.{namespace}.svc", address)
        try:
            for container in spec.get("initContainers", []):
                while (code := await self._run(pod, container, address)) != 0:
                    if code is None or spec.get("restartPolicy") == "Never":
                        return
                    await asyncio.sleep(0.5)
            pause_s = 0.5
            while True:
                code = await self._run(pod, spec["containers"][0], address)
                if code is None:
                    return
                if spec.get("restartPolicy") == "Never":
                    return
                self.restarts[name] = self.restarts.get(name, 0) + 1
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, 5.0)
                if self._is_leaving(pod):
                    return
        finally:
            self._names.drop(address)
            live = self._api.get("Pod", namespace, name)
            is_ours = live is not None and live["metadata"]["uid"] == metadata["uid"]
            is_job = spec.get("restartPolicy") == "Never"
            if is_ours and not is_job and spec.get("nodeName") in self._nodes:
                self._api.delete("Pod", namespace, name, now=True)
                self._pods.pop(metadata["uid"], None)

    def _is_leaving(self, pod: Object) -> bool:
        live = self._api.get("Pod", pod["metadata"]["namespace"], pod["metadata"]["name"])
        return (
            live is None
            or live["metadata"]["uid"] != pod["metadata"]["uid"]
            or bool(live["metadata"].get("deletionTimestamp"))
        )

    async def _run(self, pod: Object, container: Object, address: str) -> int | None:
        """Run a container to its end; None if the pod was to go."""
        image = container["image"]
        if image not in self.programs:
            waiting = {"reason": "ImagePullBackOff", "message": f"no image {image}"}
            self._tell(pod, address, {"waiting": waiting}, ready=False)
            while not self._is_leaving(pod):
                await asyncio.sleep(0.2)
            return None
        env, command = self._rendered(pod, container, address)
        log = self._folder / f"{pod['metadata']['name']}.log"
        began = log.stat().st_size if log.exists() else 0
        with log.open("ab") as out:
            process = await asyncio.create_subprocess_exec(
                *self._names.inside(*command), env=env, stdout=out, stderr=out
            )
        self.processes[pod["metadata"]["name"]] = process
        try:
            return await self._watch(pod, container, address, process, log, began)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _watch(
        self,
        pod: Object,
        container: Object,
        address: str,
        process: asyncio.subprocess.Process,
        log: Path,
        began: int,
    ) -> int | None:
        is_main = container is pod["spec"]["containers"][0]
        probe = container.get("readinessProbe", {}).get("httpGet")
        while process.returncode is None:
            if self._is_leaving(pod):
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signal.SIGTERM)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(30):
                        await process.wait()
                return None
            if is_main:
                url = f"http://{address}:{probe['port']}{probe['path']}" if probe else ""
                ready = bool(url) and await asyncio.to_thread(_answers, url)
                if not self._is_leaving(pod):
                    self._tell(pod, address, {"running": {}}, ready=ready)
            await asyncio.sleep(0.2)
        words = log.read_bytes()[began:][-2000:].decode("utf-8", "replace")
        ended = {"exitCode": process.returncode, "message": words if process.returncode else ""}
        if is_main or process.returncode:
            self._tell(pod, address, {"terminated": ended}, ready=False)
        return process.returncode

    def _tell(self, pod: Object, address: str, state: Object, *, ready: bool) -> None:
        live = self._api.get("Pod", pod["metadata"]["namespace"], pod["metadata"]["name"])
        if live is None or live["metadata"]["uid"] != pod["metadata"]["uid"]:
            return
        phase = "Running"
        if "terminated" in state and pod["spec"].get("restartPolicy") == "Never":
            phase = "Failed" if state["terminated"]["exitCode"] else "Succeeded"
        name = pod["spec"]["containers"][0]["name"]
        status = {
            "phase": phase,
            "podIP": address,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "containerStatuses": [
                {
                    "name": name,
                    "state": state,
                    "ready": ready,
                    "restartCount": self.restarts.get(pod["metadata"]["name"], 0),
                    "image": pod["spec"]["containers"][0]["image"],
                    "imageID": "",
                }
            ],
        }
        self._api.set_status(live, status)

    def _rendered(
        self, pod: Object, container: Object, address: str
    ) -> tuple[dict[str, str], list[str]]:
        env = {"PATH": os.environ["PATH"], "HOME": str(self._folder), **self.env}
        for one in container.get("env", []):
            value = self._value(pod, one)
            if value is not None:
                env[one["name"]] = _expanded(value, env)
        folders = self._folders(pod, container)

        def placed(text: str) -> str:
            text = text.replace("0.0.0.0", address)
            for path in sorted(folders, key=len, reverse=True):
                text = text.replace(path, str(folders[path]))
            return text

        for path in folders.values():
            for file in path.glob("*.yaml"):  # settings name addresses and folders, too
                file.write_text(placed(file.read_text()))
        env = {key: placed(value) for key, value in env.items()}
        arguments = [*container.get("command", [])[1:], *container.get("args", [])]
        command = [placed(_expanded(text, env)) for text in arguments]
        return env, [*self.programs[container["image"]], *command]

    def _value(self, pod: Object, one: Object) -> str | None:
        if "value" in one:
            return str(one["value"])
        source = one["valueFrom"]
        if field := source.get("fieldRef"):
            path = field["fieldPath"]
            if label := re.fullmatch(r"metadata\.labels\['(.+)'\]", path):
                return str(pod["metadata"].get("labels", {}).get(label[1], ""))
            known: dict[str, Any] = pod["metadata"]
            return str(known.get(path.removeprefix("metadata."), ""))
        reference = source["secretKeyRef"]
        secret = self._api.get("Secret", pod["metadata"]["namespace"], reference["name"])
        return secret_data(secret or {}).get(reference["key"])

    def _folders(self, pod: Object, container: Object) -> dict[str, Path]:
        found = {}
        namespace = pod["metadata"]["namespace"]
        volumes = {one["name"]: one for one in pod["spec"].get("volumes", [])}
        for mount in container.get("volumeMounts", []):
            if mount["mountPath"] == "/tmp" or mount["mountPath"].endswith("/serviceaccount"):
                continue
            # A volume of a claim outlives its pod; the others are of one pod.
            kept = "persistentVolumeClaim" in volumes.get(
                mount["name"], {"persistentVolumeClaim": 0}
            )
            owner = pod["metadata"]["name"] if kept else pod["metadata"]["uid"]
            folder = self._folder / "volumes" / owner / mount["name"]
            folder.mkdir(parents=True, exist_ok=True)
            volume = volumes.get(mount["name"], {})
            files: dict[str, str] = {}
            if source := volume.get("configMap"):
                found_map = self._api.get("ConfigMap", namespace, source["name"]) or {}
                files = found_map.get("data", {})
            if source := volume.get("secret"):
                files = secret_data(self._api.get("Secret", namespace, source["secretName"]) or {})
            for name, text in files.items():
                (folder / name).write_text(text)
            found[mount["mountPath"]] = folder
        return found

    def lose_volume(self, pod: str, volume: str) -> None:
        """Delete what a pod kept."""
        shutil.rmtree(self._folder / "volumes" / pod / volume, ignore_errors=True)


def _headless(api: Objects, pod: Object) -> str:
    """The name of the Service by which the pod has a name."""
    owner = pod["metadata"]["ownerReferences"][0]
    if owner["kind"] != "StatefulSet":
        return ""
    found = api.get("StatefulSet", pod["metadata"]["namespace"], owner["name"])
    return found["spec"]["serviceName"] if found else ""


def secret_data(secret: Object) -> dict[str, str]:
    """What a Secret holds: a real API server keeps it in base64."""
    coded = secret.get("data") or {}
    found = {key: base64.b64decode(value).decode() for key, value in coded.items()}
    return {**found, **secret.get("stringData", {})}


def _expanded(text: str, env: dict[str, str]) -> str:
    return re.sub(r"\$\((\w+)\)", lambda at: env.get(at[1], at[0]), text)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()
