"""The exchange with fresh data, compared with Keycloak's refresh grant, which an application uses without a gateway."""

import load
import servers
from figures.fresh import one_session
from realm import warm_up
from report import AT_LEAST, Figure
from rounds import Rounds

TARGET = 15
SESSIONS = 8


def measure(bench):
    keycloak = bench.keycloak()
    rounds = Rounds(bench, "refresh")
    # The realm does not rotate refresh tokens, so each can be used again. With few sessions Keycloak is two to three
    # times as fast as with many: this is its best case.
    grants = keycloak.refresh_grants(bench, keycloak.refresh_tokens(bench, SESSIONS))
    warm_up(bench, grants)
    settings = {"http.workers": 1, **keycloak.settings(bench.sealing())}
    with servers.gateway(bench, bench.first, settings) as gateway:
        exchanges = one_session(bench, "gateway with Keycloak", gateway.url)
        size, _ = servers.inspect(exchanges)
        refreshed = grants.sample().size

        def exchange():
            outcome = load.run(exchanges, bench.second, bench.connections, seconds=bench.seconds, size=size)
            gateway.check_log()
            gateway.truncate_log()
            return outcome

        def refresh():
            return load.run(grants, bench.both, bench.connections, seconds=bench.seconds, size=refreshed)

        exchange()
        pairs = rounds.paired(bench.rounds, exchange, refresh)
    ratios = pairs.ratios(lambda outcome: outcome.rate)
    gateway_rates, keycloak_rates = pairs.series(lambda outcome: outcome.rate)
    yield Figure(
        "refresh", "exchange with fresh data, one worker on one core, relative to Keycloak's refresh grant on both",
        ratios.median, ratios.low, ratios.high, "×", AT_LEAST, TARGET, f"{gateway_rates.median:,.0f}/s and {keycloak_rates.median:,.0f}/s",
        rounds.warnings(ratios), {"gateway_rates": gateway_rates.values, "keycloak_rates": keycloak_rates.values},
    )
