"""Evaluation of the chart's alerts by Prometheus: which alerts fire for given series."""

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from dev.paths import REPOSITORY

ALERTS = REPOSITORY / "charts" / "rackspan" / "files" / "alerts.yaml"
Samples = Mapping[str, Mapping[tuple[tuple[str, str], ...], float]]
"""Values by name, then by labels."""


def refuted(promtool: Path, series: Mapping[str, str], firing: Mapping[int, Iterable[str]]) -> str:
    """Return the output of promtool if other alerts than `firing` fire at these minutes, else an empty string.

    `series` maps a series to its values, one a minute, in promtool's notation: `0+1x9` counts from 0 to 9.
    """
    questions = [
        {
            "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
            "eval_time": f"{minute}m",
            "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(names)],
        }
        for minute, names in firing.items()
    ]
    document = {
        "rule_files": [str(ALERTS)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": questions,
            }
        ],
    }
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "cases.yaml"
        path.write_text(yaml.safe_dump(document))
        done = subprocess.run([promtool, "test", "rules", path], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def lasting(samples: Samples, minutes: int, *names: str) -> dict[str, str]:
    """Return scraped samples with these names as series that are constant for `minutes`."""
    found = {}
    for name in names:
        for labels, value in samples.get(name, {}).items():
            selector = ", ".join(f'{key}="{text}"' for key, text in labels)
            found[f"{name}{{{selector}}}"] = f"{value:.0f}x{minutes}"
    return found
