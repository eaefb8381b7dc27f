"""
Everything that is computed, and nothing that is read, written or asked: pure functions over frozen types.

From the ground up; nothing imports what stands above it, and a contract in `pyproject.toml` checks that:

- `text`, `config_keys`: numbers and foreign texts as people read them, and Kafka's keys
- `rack_path`, `rack_file`: rack ids, and the file with each node's own
- `topology`: brokers and where they stand, the rack tree
- `snapshot`: a cluster at one moment, partitions in columns
- `compliance`: the fair split, judging placements by it, the fewest moves that fix one
- `durability`, `outage`: what `min.insync.replicas` has to be, and what the loss of a domain does
- `placement`: what a placer is asked and answers, the four placers, and the engine that they stand on
- `requirements`: what a topic should be
- `planning`, `scanning`, `consumers`: plans with their certificate, findings of a scan, how near consumer groups read
- `reassignment`: from a plan and what Kafka says is under way to the next calls

Partitions and brokers are held in numpy arrays: a broker is its position in the tree's depth-first order, -1 is none.
"""
