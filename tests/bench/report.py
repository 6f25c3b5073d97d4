"""The results as a Markdown table and as JSON."""

import json
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Optional

from rounds import number

AT_LEAST, AT_MOST = "≥", "≤"
# The order of the table. The order of measurement differs.
ORDER = ("fresh-1", "fresh-2", "refresh", "stale", "added-keycloak-exchange", "added-keycloak-login",
         "added-glewlwyd-exchange", "added-glewlwyd-login", "added-django-exchange", "added-django-login",
         "directory-exchange", "directory-login", "directory-memory", "tail", "tls-exchange", "tls-handshake",
         "audit-login", "audit-closed-login", "audit-rate", "audit-closed-rate", "memory-idle", "memory-used", "start",
         "replica-start", "replica-memory",
         "replica-propagation", "replica-rate", "capacity-processor", "capacity-calls", "capacity-commands", "capacity-to-redis",
         "capacity-from-redis", "capacity-redis-memory", "capacity-memory", "flood-rate", "flood-logouts", "flood-fetches", "connections-rate", "connections-memory", "connections-kept", "connections-accept", "sessions-64", "sessions-256", "sessions-512", "mock-reset", "mock-login", "mock-exchange", "mock-iam-start", "mock-iam-exchange")


@dataclass(frozen=True)
class Figure:
    name: str
    what: str
    value: float
    low: float
    high: float
    unit: str  # "" for a ratio
    bound: str  # AT_LEAST or AT_MOST
    target: Optional[float]  # None: no target
    source: str  # the raw figures that the value is computed from
    warnings: list = field(default_factory=list)
    raw: dict = field(default_factory=dict)

    @property
    def reached(self):
        if self.target is None:
            return True
        return self.value >= self.target if self.bound == AT_LEAST else self.value <= self.target

    def row(self):
        unit = f" {self.unit}" if self.unit else ""
        measured = f"{number(self.value)}{unit}"
        if self.low != self.high:
            measured += f" ({number(self.low)} to {number(self.high)})"
        target = "none" if self.target is None else f"{self.bound} {self.target:g}{unit}"
        missed = "" if self.reached else " **missed**"
        return f"| {self.what} | {measured} | {target}{missed} | {self.source} |"


def machine():
    model: Optional[str] = None
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return f"{model or platform.machine()}, Linux {platform.release()}"


def table(figures, cores):
    head = f"Medians (lowest to highest round), on cores {cores} of {machine()}."
    rows = ["| figure | measured | target | from |", "|---|---|---|---|", *(figure.row() for figure in figures)]
    return "\n".join([head, "", *rows])


def write(path, figures, not_run, bench):
    result = {
        "machine": machine(),
        "cores": bench.both,
        "quick": bench.quick,
        "figures": [{**asdict(figure), "reached": figure.reached} for figure in figures],
        "not_run": not_run,
    }
    path.write_text(json.dumps(result, indent=2) + "\n")
