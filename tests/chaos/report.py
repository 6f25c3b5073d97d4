"""The report at the end."""

import platform


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def milliseconds(values):
    return " / ".join(f"{quantile(values, share) * 1000:.1f}" for share in (0.5, 0.99)) + " ms"


def seconds(values):
    return f"{quantile(values, 0.5):.2f} s, maximum {max(values):.2f} s" if values else "none"


def table(test):
    count, checker = test.checker.count, test.checker
    replicas = [took for gateway in test.gateways for took in gateway.start_seconds[1:]]
    operations = ("login", "exchange", "logout")
    rows = [
        ("duration", f"{test.duration:.0f} s on {platform.machine()}, {len(test.clients)} clients"),
        ("requests", f"{count['requests']} ({count['requests'] / test.duration:.0f}/s): " + ", ".join(
            f"{count[f'requests of {name}']} of {name}" for name in operations)),
        ("retried", count["retried"]),
        ("lost", count["lost"]),
        ("postponed while Keycloak was down", ", ".join(
            f"{count[f'{name} postponed']} of {name}" for name in operations)),
        ("exchanges served while Keycloak was down, of sessions in the cache of every replica", count["served without Keycloak"]),
        ("replicas killed (SIGKILL), stopped (SIGTERM)", f"{test.replica_faults.killed}, {test.replica_faults.terminated}"),
        *((f"{name} killed (SIGKILL), down", f"{times}, {test.outages[name].total(test.started + test.duration):.0f} s")
          for name, times in test.backend_faults.killed.items()),
        ("start of a replica until it is ready", seconds(replicas)),
        ("stop of a replica after SIGTERM", seconds(test.replica_faults.stop_seconds)),
        ("start of Keycloak until it is ready", seconds(test.keycloak.start_seconds[1:])),
        *((f"{name}, p50 / p99 of an attempt", milliseconds(checker.seconds[name])) for name in operations),
        ("active sessions refused", count["spurious 401"] + count["refused login"] + count["refused logout"]),
        ("sessions accepted after their logout", count["accepted after logout"]),
        ("logged-out sessions refused", count["refused after logout"]),
        ("sessions that an operator revoked", count["revoked by an operator"]),
        ("granted after a logout, within the bound", count["granted after logout, within the bound"]),
        ("granted after a logout while Redis and Keycloak were down", count["granted after logout, as stale_if_error allows"]),
        ("tokens of another user, or with another scope", count["wrong user"] + count["wrong scope"]),
        ("tokens that the published keys do not verify", count["unverifiable token"]),
        ("responses", ", ".join(f"{name.split()[1]}: {times}" for name, times in sorted(count.items())
                              if name.startswith("status"))),
    ]
    return "\n".join(["| what | figure |", "|---|---|", *(f"| {name} | {figure} |" for name, figure in rows), ""])


def problems(test):
    """The violated guarantees with examples, and what the run did not cover."""
    count, found = test.checker.count, list(test.checker.violations)
    for what in ("refused after logout", "served without Keycloak", "requests of login", "requests of logout",
                 "revoked by an operator"):
        if count[what] == 0:
            found.append(f"never happened: {what}")
    if test.replica_faults.killed == 0 or not all(test.backend_faults.killed.values()):
        found.append("too short: not every server was killed")
    return found
