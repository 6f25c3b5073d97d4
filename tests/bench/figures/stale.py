"""An exchange with stale data, compared with the introspection that it makes. All processes share two cores."""

import load
import servers
from realm import gateway_sessions, warm_up
from report import AT_LEAST, Figure
from rounds import Rounds
from wire import Failure

TARGET = 0.60
# The same number on each side, each used once in a round. Keycloak keeps 10,000 in memory and reads the others from its database.
SESSIONS = 4_000


def check_calls(name, gateway, exchanges, before=0):
    """Checks that each exchange made exactly one call: no data came from a cache, and no call was repeated."""
    calls = gateway.iam_calls("introspection") - before
    if calls != exchanges:
        raise Failure(f"{name}: {exchanges} exchanges made {calls:.0f} introspections")


def measure(bench):
    keycloak = bench.keycloak()
    rounds = Rounds(bench, "stale")
    count = bench.size(SESSIONS, 200)
    settings = keycloak.settings(bench.sealing())
    bench.log(f"making {count} sessions")
    sessions = gateway_sessions(bench, settings, count)
    calls = keycloak.introspections(bench, keycloak.refresh_tokens(bench, count))
    warm_up(bench, calls)
    bodies = bench.folder / "stale"
    bodies.write_text("\n".join(sessions) + "\n")

    def exchange():
        # A gateway that has just started has an empty cache.
        with servers.gateway(bench, bench.both, settings) as gateway:
            exchanges = servers.exchanges("stale exchange", gateway.url, bodies)
            outcome = load.run(exchanges, bench.both, bench.connections, count=count)
            check_calls("stale", gateway, outcome.requests)
            gateway.check_log()
        return outcome

    def introspect():
        return load.run(calls, bench.both, bench.connections, count=count)

    exchange()
    pairs = rounds.paired(bench.size(2 * bench.rounds, bench.rounds), exchange, introspect)
    ratios = pairs.ratios(lambda outcome: outcome.rate)
    gateway_rates, keycloak_rates = pairs.series(lambda outcome: outcome.rate)
    yield Figure(
        "stale", "exchange with stale data, relative to the introspection that it makes, same two cores",
        ratios.median, ratios.low, ratios.high, "", AT_LEAST, TARGET,
        f"{gateway_rates.median:,.0f}/s and {keycloak_rates.median:,.0f}/s", rounds.warnings(ratios),
        {"gateway_rates": gateway_rates.values, "keycloak_rates": keycloak_rates.values},
    )
