"""Even loads: replicas, leaders and bytes per broker, at as few moves as that takes."""
