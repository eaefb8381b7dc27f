"""A status is written when it changed, and only what changed."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackspan.api.meta import ObjectKey
from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import ObjectRef
from rackspan.reconcile.status import merge_patch
from rackspan.reconcile.statuses import StatusWriter

keys = st.sampled_from(["a", "b", "c", "d"])
values = st.recursive(
    st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(keys, values, max_size=4)


def applied(target, patch):
    """MergePatch of RFC 7396, section 2, to the letter."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = applied(result.get(name), value)
    return result


@settings(deadline=None)
@given(documents, documents)
def test_the_patch_turns_the_old_document_into_the_new_one(old, new):
    assert applied(old, merge_patch(old, new)) == new


@settings(deadline=None)
@given(documents)
def test_nothing_changed_is_nothing_to_write(document):
    assert merge_patch(document, document) == {}


@settings(deadline=None)
@given(documents, documents)
def test_what_is_equal_is_not_in_the_patch(old, new):
    patch = merge_patch(old, new)
    assert not [key for key in patch if key in old and key in new and old[key] == new[key]]


REF = ObjectRef("KafkaTopic", ObjectKey("shop", "orders"), "uid-1")
AWAY = FailureError(Failure(Reason.API_SERVER_UNREACHABLE, "connection refused", Remedy.RETRY))


class Kube:
    """An API server that holds one status, and takes as many patches at once as come."""

    def __init__(self, status=None, failing=0):
        self.status, self.failing = dict(status or {}), failing
        self.patches, self.at_once, self.most_at_once = [], 0, 0

    async def patch_status(self, ref, patch):
        self.patches.append(patch)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        if self.failing:
            self.failing -= 1
            raise AWAY
        self.status = applied(self.status, patch)
        return {"status": self.status}


async def test_an_unchanged_status_is_not_written():
    kube = Kube()
    assert await StatusWriter(kube).write(REF, {"a": 1}, {"a": 1}) is None
    assert kube.patches == []


async def test_a_write_that_failed_is_made_up_for_by_the_next_one():
    kube = Kube({"topicId": "x", "partitions": 3}, failing=1)
    writer = StatusWriter(kube)
    old, new = dict(kube.status), {"topicId": "x", "partitions": 6}
    with pytest.raises(FailureError):
        await writer.write(REF, old, new)
    await writer.write(REF, new, new)  # the caller believes by now what it has seen
    assert kube.status == new
    assert await writer.write(REF, new, new) is None


async def test_many_statuses_are_written_side_by_side_but_not_all_at_once():
    kube = Kube()
    writer = StatusWriter(kube)
    refs = [ObjectRef("KafkaTopic", ObjectKey("shop", str(number)), str(number)) for number in range(100)]
    await asyncio.gather(*(writer.write(ref, {}, {"a": number}) for number, ref in enumerate(refs)))
    assert len(kube.patches) == 100
    assert 1 < kube.most_at_once <= 20
