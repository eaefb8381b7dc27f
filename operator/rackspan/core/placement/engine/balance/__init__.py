"""Even loads: replicas, leaders and bytes per broker, with as few moves as possible."""
