"""Kopf handlers, one file per kind; each only calls the manager in `rackspan.reconcile`.

`@kopf.index` fills the cache before any event handler runs: kopf holds events back until all indexed kinds have been
listed, so nothing is decided from an incomplete cache after a start. Later changes arrive as events. Kopf writes
neither annotations nor a finalizer of its own to objects.

`event["type"]` is that of the watch event, or None for an object of a (re)list.
"""
