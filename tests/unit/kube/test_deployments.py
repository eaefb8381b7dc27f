"""The operator's Deployment is at zero once none of its Pods runs."""

from urllib.parse import parse_qsl

from rackspan.api.meta import ObjectKey
from rackspan.kube import deployments
from rackspan.kube.deployments import scale_to_zero


class Rest:
    """A Deployment whose Pod terminates for some lists. `status.replicas` does not count it then, as in Kubernetes."""

    def __init__(self):
        self.lists = []

    async def merge_patch(self, operation, path, patch):
        assert patch == {"spec": {"replicas": 0}}
        return {"status": {"replicas": 1, "selector": "app=rackspan"}}

    async def get(self, operation, path):
        if operation == "get_scale":
            return {"status": {"replicas": 0, "selector": "app=rackspan"}}
        self.lists.append(str(path))
        return {"items": [{}] if len(self.lists) < 3 else []}


async def test_scale_to_zero_waits_for_terminating_pods(monkeypatch):
    monkeypatch.setattr(deployments, "_PAUSE_SECONDS", 0)
    rest = Rest()
    await scale_to_zero(rest, ObjectKey("rackspan", "operator"))
    assert len(rest.lists) == 3
    (path,) = set(rest.lists)
    where, _, query = path.partition("?")
    assert where == "/api/v1/namespaces/rackspan/pods"
    assert dict(parse_qsl(query)) == {
        "labelSelector": "app=rackspan",
        "fieldSelector": "status.phase!=Failed,status.phase!=Succeeded",
        "limit": "1",
    }
