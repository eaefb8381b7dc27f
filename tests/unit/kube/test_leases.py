"""The Lease object: what is read and written while other writes of the same operator may still take effect."""

from rackspan.api.meta import ObjectKey
from rackspan.kube.leases import KubeLease
from rackspan.kube.rest import ConflictError


class Rest:
    """A Lease. `late` are the renewals that take effect just before the next write."""

    def __init__(self, holder, late):
        self.spec, self.version, self.late = {"holderIdentity": holder}, 1, late

    async def get(self, operation, path):
        return {"metadata": {"resourceVersion": str(self.version)}, "spec": dict(self.spec)}

    async def merge_patch(self, operation, path, body):
        if self.late:
            self.late -= 1
            self.version += 1
        if body["metadata"]["resourceVersion"] != str(self.version):
            raise ConflictError("conflict")
        self.version += 1
        self.spec |= body["spec"]
        return await self.get(operation, path)


async def test_lease_is_released_although_a_cancelled_renewal_takes_effect_meanwhile():
    rest = Rest("me", late=1)
    await KubeLease(rest, ObjectKey("rackspan", "leader")).release("me")
    assert rest.spec["holderIdentity"] == ""


async def test_lease_of_another_holder_is_not_released():
    rest = Rest("other", late=0)
    await KubeLease(rest, ObjectKey("rackspan", "leader")).release("me")
    assert (rest.spec["holderIdentity"], rest.version) == ("other", 1)
