"""The plan of one topology: computed, reviewed, approved, and carried out by Reassignments.

topology_plan                  the parts that topics need, with and without a KafkaTopic
approvals ──┬─ plan_review ── holds              who has approved which parts, and what the others wait for
├─ approved_hashes, plan_sizes       annotations and specs; bytes
├─ shrinking                         min.insync.replicas of topics that get fewer replicas
└─ approved_plans ── plan_documents  the Reassignments of what is approved
reassignments_reconciler ── worker ──┬─ turns                             which Reassignment is carried out now
├─ runs ── executor                  pass by pass, from what Kafka reports
│          └─ pass_reader, refusals, throttling
└─ reassignment_status               the status of a Reassignment, and its writer
"""
