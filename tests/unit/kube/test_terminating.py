"""What ends in Kubernetes is asked in one round, since deletions wait for the answers."""

import asyncio
from datetime import UTC, datetime

from rackspan.kube.kube_cluster import KubeCluster
from rackspan.kube.rest import NotFoundError

SINCE = "2026-01-31T12:00:00Z"


class Api:
    """Answers nothing before it was asked for `all_of` objects; `ending` are being deleted, `gone` are not there."""

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


async def test_definitions_and_namespaces_are_asked_for_at_once():
    api = Api(4, ending=("shop", "racktopologies.rackspan.dev"), gone=("old",))
    found = await KubeCluster(api, None).terminating(["shop", "old"])
    assert found.definitions == ("racktopologies.rackspan.dev",)
    assert found.namespaces == {
        "shop": datetime(2026, 1, 31, 12, tzinfo=UTC),
        "old": datetime.min.replace(tzinfo=UTC),
    }


async def test_where_nothing_ends_nothing_is_told():
    found = await KubeCluster(Api(3), None).terminating(["shop"])
    assert (found.definitions, dict(found.namespaces)) == ((), {})
