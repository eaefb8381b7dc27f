"""
The compliance scan: clusters in, findings, history and a scan document out.

`sources` read partitions, `batches` judge them by the pure core and add up what was found, `history` keeps it, `scan`
puts them together and is the only one that acts. `spark` is one of two engines; nothing outside of it imports Spark.
"""
