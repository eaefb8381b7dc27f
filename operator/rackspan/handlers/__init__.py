"""Kopf handlers; those of a kind only call the informer of that kind, see `rackspan.reconcile.manager`.

`Manager.prime` fills the cache before kopf starts, so nothing is decided from an incomplete cache. Later changes arrive
as events. `@kopf.index` would do the same, but while kopf fills an index each object wakes the tasks of all others.
Kopf writes neither annotations nor a finalizer of its own to objects. Pods, Nodes and Namespaces, of which a cluster
may have very many, are not kopf's: see `kube/reflector.py`.

`event["type"]` is that of the watch event, or None for an object of a (re)list.
"""
