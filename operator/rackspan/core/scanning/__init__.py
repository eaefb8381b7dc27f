"""Examination of all partitions of a cluster: what is wrong, how severe it is, and what would fix it.

The operator, the command line and the Spark job all call `examine`, so they share one set of rules.
"""

from rackspan.core.scanning.brokers import BrokerLocations, locations_in, rack_warnings, reported_locations
from rackspan.core.scanning.examine import examine, examine_brokers
from rackspan.core.scanning.findings import Findings
from rackspan.core.scanning.portion import Portion, portion_of
from rackspan.core.scanning.rules import Rule, Severity

__all__ = [
    "BrokerLocations",
    "Findings",
    "Portion",
    "Rule",
    "Severity",
    "examine",
    "examine_brokers",
    "locations_in",
    "portion_of",
    "rack_warnings",
    "reported_locations",
]
