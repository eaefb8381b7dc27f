"""
The compliance scan on Spark: clusters in, findings, history and a scan document out.

`sources` read partitions, `spark` runs the pure core over Arrow batches, `history` keeps what was found, `scan` puts
them together and is the only one that acts. Nothing outside this room imports Spark.
"""
