"""The clusters that a scan reads (files, live ones, behind a RackTopology, made up), and how Spark reads each."""
