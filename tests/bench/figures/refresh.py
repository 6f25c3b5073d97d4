"""The usual exchange on one core against what an application would do without a gateway: Keycloak's refresh grant."""

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
    # The realm does not rotate refresh tokens, so each can be used again. On few sessions Keycloak is two to three
    # times as fast as on many: this is the best that it can do.
    grants = keycloak.refresh_grants(bench, keycloak.refresh_tokens(bench, SESSIONS))
    warm_up(bench, grants)
    settings = {"http.workers": 1, **keycloak.settings(bench.sealing())}
    with servers.gateway(bench, bench.first, settings) as gateway:
        exchanges = one_session(bench, "gateway before Keycloak", gateway.url)
        size, _ = servers.inspected(exchanges)
        refreshed = grants.sample().size

        def exchange():
            outcome = load.run(exchanges, bench.second, bench.connections, seconds=bench.seconds, size=size)
            gateway.check_log()
            gateway.forget_log()
            return outcome

        def refresh():
            return load.run(grants, bench.both, bench.connections, seconds=bench.seconds, size=refreshed)

        exchange()
        pairs = rounds.paired(bench.rounds, exchange, refresh)
    ratios = pairs.ratios(lambda outcome: outcome.rate)
    ours, theirs = pairs.series(lambda outcome: outcome.rate)
    yield Figure(
        "refresh", "exchange with fresh knowledge, one worker on one core, against Keycloak's refresh grant on both",
        ratios.median, ratios.low, ratios.high, "×", AT_LEAST, TARGET, f"{ours.median:,.0f}/s against {theirs.median:,.0f}/s",
        rounds.doubts(ratios), {"gateway_rates": ours.values, "keycloak_rates": theirs.values},
    )
