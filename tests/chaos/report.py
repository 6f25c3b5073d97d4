"""The report at the end."""

import platform


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def milliseconds(values):
    return " / ".join(f"{quantile(values, share) * 1000:.1f}" for share in (0.5, 0.99)) + " ms"


def seconds(values):
    return f"{quantile(values, 0.5):.2f} s, at the most {max(values):.2f} s" if values else "none"


def table(play):
    count, ledger = play.ledger.count, play.ledger
    replicas = [took for gateway in play.gateways for took in gateway.to_ready[1:]]
    operations = ("login", "exchange", "logout")
    rows = [
        ("lasted", f"{play.lasted:.0f} s on {platform.machine()}, {len(play.clients)} clients"),
        ("requests", f"{count['requests']} ({count['requests'] / play.lasted:.0f}/s): " + ", ".join(
            f"{count[f'requests of {name}']} of {name}" for name in operations)),
        ("given a second attempt", count["retried"]),
        ("lost", count["lost"]),
        ("postponed while Keycloak was away", ", ".join(
            f"{count[f'{name} postponed']} of {name}" for name in operations)),
        ("exchanges served while it was away, of sessions that every replica knew", count["served without Keycloak"]),
        ("replicas killed (-9), ended by SIGTERM", f"{play.replica_killer.killed}, {play.replica_killer.terminated}"),
        *((f"{name} killed (-9), away", f"{times}, {play.outages[name].total(play.began + play.lasted):.0f} s")
          for name, times in play.backend_killer.killed.items()),
        ("a replica from its start to ready", seconds(replicas)),
        ("a replica from SIGTERM to its end", seconds(play.replica_killer.to_stop)),
        ("Keycloak from its start to ready", seconds(play.keycloak.to_ready[1:])),
        *((f"{name}, p50 / p99 of an attempt", milliseconds(ledger.seconds[name])) for name in operations),
        ("living sessions refused", count["spurious 401"] + count["refused login"] + count["refused logout"]),
        ("sessions alive after their logout", count["resurrected"]),
        ("logged-out sessions refused", count["refused after logout"]),
        ("sessions that an operator revoked", count["revoked by an operator"]),
        ("granted after a logout, within the bound", count["granted after logout, within the bound"]),
        ("granted after a logout while Redis and Keycloak were down", count["granted after logout, as stale_if_error allows"]),
        ("tokens of another user, or with another scope", count["wrong user"] + count["wrong scope"]),
        ("tokens that the published keys do not verify", count["unverifiable token"]),
        ("answers", ", ".join(f"{name.split()[1]}: {times}" for name, times in sorted(count.items())
                              if name.startswith("status"))),
    ]
    return "\n".join(["| what | figure |", "|---|---|", *(f"| {name} | {figure} |" for name, figure in rows), ""])


def broken(play):
    """Every promise that was, with examples; and what makes the run say nothing."""
    count, said = play.ledger.count, list(play.ledger.breaches)
    for what in ("refused after logout", "served without Keycloak", "requests of login", "requests of logout",
                 "revoked by an operator"):
        if count[what] == 0:
            said.append(f"nothing was tried: {what}")
    if play.replica_killer.killed == 0 or not all(play.backend_killer.killed.values()):
        said.append("too short: not everything was killed once")
    return said
