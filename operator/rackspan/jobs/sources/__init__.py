"""The clusters that a scan reads (snapshot files, live, of a RackTopology, synthetic), and the reader of each."""
