"""kopf decorators, one file per kind; each is a call into `rackspan.reconcile`.

`@kopf.index` fills the cache before any event handler runs, because kopf holds events back until every indexed
kind has been listed: no topic is judged by half of the nodes, and no topic's rival is overlooked at a restart. Events
then say what changed. Objects carry no kopf annotations and no kopf finalizer.
"""
