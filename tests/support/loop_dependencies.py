"""Dependencies of the loops of racks and scans. By default nothing is allowed and all namespaces are watched."""

from rackspan.reconcile.racks.publish import RackDependencies
from rackspan.reconcile.runtime.namespaces import NamespaceSet
from rackspan.reconcile.runtime.waiting import Liveness
from rackspan.reconcile.scans.scan_reconciler import ScanDependencies

NOWHERE = NamespaceSet()


def rack_dependencies(
    cache, kube, files=None, pods=None, *, allowed=NOWHERE, watched=(), restart_in=NOWHERE, annotate_in=NOWHERE
):
    return RackDependencies(cache, kube, files, pods, allowed, watched, Liveness(), restart_in, annotate_in)


def scan_dependencies(cache, kube, runs, setup, *, namespaces=(), **clock):
    return ScanDependencies(cache, kube, runs, setup, namespaces, Liveness(), **clock)
