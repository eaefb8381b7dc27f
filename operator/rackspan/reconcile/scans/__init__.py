"""
Starts compliance scans and tells how they went, without judging anything itself.

    handlers ── controller ──> loop ──┬─ decision ── schedule       what is due, what waits, what goes
                (cache)           ├─ turns                       whose is next, where more are due than may run
                                      ├─ setup ── allowance         what the chart lets a namespace ask for
                                      ├─ bodies                     the Job or SparkApplication that scans
                                      ├─ runs                       what became of it
                                      ├─ outcome ──> status         lastScan, and the condition Scanned
                                      └─ results ──> metrics, Events

All but `loop` are pure: the clock is an argument. State lives in `loop`, and what has to outlive the
operator in the status of the RackTopology.
"""
