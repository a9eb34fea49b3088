"""Fakes of the controllers that pods come from: StatefulSets, Deployments, Jobs.

A StatefulSet here is `Parallel` and obeys its partition, as the real one does: pods whose number is
at least the partition are replaced when their revision is not the latest, the highest first, one at
a time.
"""

import asyncio
import copy
import datetime
import hashlib
import json
from typing import Any

from tests.support.kubernetes.fake_api import FakeApi, Object


class FakeControllers:
    """Looks at everything whenever something has changed."""

    def __init__(self, api: FakeApi) -> None:
        self._api = api

    async def run(self) -> None:
        while True:
            await self._api.changed.wait()
            self._api.changed.clear()
            for one in self._api.all_of("StatefulSet"):
                self._stateful_set(one)
            for one in self._api.all_of("Deployment"):
                self._deployment(one)
            for one in self._api.all_of("Job"):
                self._job(one)
            await asyncio.sleep(0.02)

    def _stateful_set(self, owner: Object) -> None:
        name = owner["metadata"]["name"]
        replicas = owner["spec"]["replicas"]
        strategy = owner["spec"].get("updateStrategy", {}).get("rollingUpdate", {})
        partition = strategy.get("partition", 0)
        latest = revision_of(owner["spec"]["template"])
        pods = {_number(pod): pod for pod in self._owned(owner)}
        kept = (owner.get("status") or {}).get("currentRevision", latest)
        for number in range(replicas):
            if number not in pods:
                is_new = number >= partition or not pods
                revision = latest if is_new else kept
                template = owner["spec"]["template"] if revision == latest else self._old[revision]
                self._make(owner, f"{name}-{number}", template, revision)
        self._old = {**getattr(self, "_old", {}), latest: copy.deepcopy(owner["spec"]["template"])}
        for number in sorted(pods, reverse=True):
            pod = pods[number]
            if number >= replicas:
                self._end(pod)
            elif number >= partition and _revision(pod) != latest:
                self._end(pod)
                break
            elif number >= partition and not is_ready(pod):
                break
        live = self._owned(owner)
        done = all(_revision(pod) == latest for pod in live)
        status = {
            "observedGeneration": owner["metadata"]["generation"],
            "replicas": len(live),
            "readyReplicas": sum(is_ready(pod) for pod in live),
            "updateRevision": latest,
            "currentRevision": latest if done else kept,
        }
        self._api.set_status(owner, status)

    def _deployment(self, owner: Object) -> None:
        if not self._owned(owner):
            self._make(owner, f"{owner['metadata']['name']}-0", owner["spec"]["template"], "")

    def _job(self, owner: Object) -> None:
        pods = self._owned(owner)
        if not pods and not (owner.get("status") or {}).get("succeeded"):
            name = owner["metadata"]["name"]
            template = copy.deepcopy(owner["spec"]["template"])
            template["metadata"].setdefault("labels", {})["job-name"] = name
            self._make(owner, f"{name}-0", template, "")
        phases = [(pod.get("status") or {}).get("phase") for pod in pods]
        if "Succeeded" in phases:
            done = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            done = owner.get("status", {}).get("completionTime", done)
            self._api.set_status(owner, {"succeeded": 1, "completionTime": done})
        elif "Failed" in phases:
            self._api.set_status(owner, {"failed": 1})

    def _owned(self, owner: Object) -> list[Object]:
        return [
            pod
            for pod in self._api.all_of("Pod", owner["metadata"]["namespace"])
            if pod["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]
        ]

    def _make(self, owner: Object, name: str, template: Object, revision: str) -> None:
        metadata: dict[str, Any] = copy.deepcopy(template["metadata"])
        labels = metadata.get("labels", {})
        if revision:
            labels = {**labels, "controller-revision-hash": revision}
        self._api.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    **metadata,
                    "name": name,
                    "namespace": owner["metadata"]["namespace"],
                    "labels": labels,
                    "ownerReferences": [
                        {
                            "kind": owner["kind"],
                            "name": owner["metadata"]["name"],
                            "uid": owner["metadata"]["uid"],
                        }
                    ],
                },
                "spec": {**copy.deepcopy(template["spec"]), "nodeName": "node-1"},
                "status": {"phase": "Pending"},
            }
        )

    def _end(self, pod: Object) -> None:
        if not pod["metadata"].get("deletionTimestamp"):
            self._api.delete("Pod", pod["metadata"]["namespace"], pod["metadata"]["name"])


def revision_of(template: Object) -> str:
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]


def is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _number(pod: Object) -> int:
    return int(pod["metadata"]["name"].rpartition("-")[2])


def _revision(pod: Object) -> str:
    found: str = pod["metadata"]["labels"].get("controller-revision-hash", "")
    return found
