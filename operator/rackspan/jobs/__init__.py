"""The compliance scan: reads clusters and produces findings, a history and a scan document.

`sources` read partitions. `batches` judge the partitions with the pure core and sum up the results. `history` stores
the results. `scan` combines these packages and runs the scan. `spark` is one of two engines, and alone imports Spark.
"""
