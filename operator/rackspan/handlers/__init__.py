"""Kopf handlers. The handler of a kind only calls the informer of that kind, see `rackspan.reconcile.manager`.

`Manager.prime` fills the cache before kopf starts, so that no decision uses an incomplete cache. Later changes arrive
as events. `@kopf.index` would do the same, but while kopf fills an index each object wakes the tasks of all others.
Kopf writes neither annotations nor its own finalizer to objects. Kopf does not watch Pods, Nodes and Namespaces,
because a cluster may have very many of them: see `kube/reflector.py`.

`event["type"]` is the type of the watch event, or None for an object from a list.
"""
