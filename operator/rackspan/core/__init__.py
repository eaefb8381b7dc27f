"""The computations of Rackspan: pure functions over frozen types. This package does no I/O.

Lowest layer first. No layer imports from a later one in this list; a contract in `pyproject.toml` checks that:

- `text`, `config_keys`: formatting of numbers and of untrusted text for people, and Kafka's config keys
- `rack_path`, `rack_file`: rack ids, and the file that has the rack id of each node
- `topology`: brokers and their racks, the rack tree
- `snapshot`: a cluster at one moment, partitions in columns
- `compliance`: the fair split, the check of placements against it, the fewest moves that fix a placement
- `durability`, `outage`: the required `min.insync.replicas`, and the effect of losing a domain
- `placement`: the input and output of placers, the four placers, and their common engine
- `requirements`: the required state of a topic
- `planning`, `scanning`, `consumers`: plans with their certificate, findings of a scan, locality of consumer groups
- `reassignment`: the next calls, computed from a plan and from the reassignments that Kafka reports as under way

Partitions and brokers are in numpy arrays: a broker is its position in the tree's depth-first order, -1 is no broker.
"""
