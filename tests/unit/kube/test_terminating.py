"""The operator reads all terminating definitions and namespaces concurrently, because deletions wait for this."""

import asyncio
from datetime import UTC, datetime

from rackspan.kube.kube_cluster import KubeCluster
from rackspan.kube.rest import NotFoundError

SINCE = "2026-01-31T12:00:00Z"


class Api:
    """Responds after `all_of` requests have arrived. `ending` are being deleted, `gone` do not exist."""

    def __init__(self, all_of, ending=(), gone=()):
        self.everybody_asked = asyncio.Barrier(all_of)
        self.ending, self.gone = ending, gone

    async def get(self, operation, path, *, accept):
        async with asyncio.timeout(300):
            await self.everybody_asked.wait()
        name = str(path).rpartition("/")[2]
        if name in self.gone:
            raise NotFoundError
        return {"metadata": {"deletionTimestamp": SINCE} if name in self.ending else {}}


async def test_terminating_requests_definitions_and_namespaces_concurrently():
    api = Api(4, ending=("shop", "racktopologies.rackspan.dev"), gone=("old",))
    found = await KubeCluster(api, None).terminating(["shop", "old"])
    assert found.definitions == ("racktopologies.rackspan.dev",)
    assert found.namespaces == {
        "shop": datetime(2026, 1, 31, 12, tzinfo=UTC),
        "old": datetime.min.replace(tzinfo=UTC),
    }


async def test_terminating_returns_nothing_if_nothing_is_being_deleted():
    found = await KubeCluster(Api(3), None).terminating(["shop"])
    assert (found.definitions, dict(found.namespaces)) == ((), {})
