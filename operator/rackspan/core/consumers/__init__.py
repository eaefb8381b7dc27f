"""Consumer groups: how near they read to where they run, and how near an assignment could let them read."""
