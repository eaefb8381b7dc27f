"""
Looking at all partitions of a cluster: what is wrong, how bad that is, and what would mend it.

The one rule set: the operator, the command line and the Spark job all call `examine`.
"""

from rackspan.core.scanning.brokers import BrokerTruth, Truth, truth_in, truth_of
from rackspan.core.scanning.examine import examine, examine_brokers
from rackspan.core.scanning.findings import Findings
from rackspan.core.scanning.portion import Portion, portion_of
from rackspan.core.scanning.rules import Rule, Severity

__all__ = [
    "BrokerTruth",
    "Findings",
    "Portion",
    "Rule",
    "Severity",
    "Truth",
    "examine",
    "examine_brokers",
    "portion_of",
    "truth_in",
    "truth_of",
]
