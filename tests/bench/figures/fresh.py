"""An exchange with cached data, compared with a reference server that only decrypts and signs."""

import contextlib

import load
import servers
from report import AT_LEAST, Figure
from rounds import Rounds
from wire import Failure

TARGET = 0.75


def one_session(bench, name, url):
    """The load that one session makes: each exchange except the first finds fresh data in the cache."""
    bodies = bench.folder / f"fresh-{name.replace(' ', '-')}"
    bodies.write_text(servers.exchange_body(servers.log_in(url)) + "\n")
    return servers.exchanges(name, url, bodies)


def measure(bench):
    for workers, on, label in ((1, bench.first, "one worker"), (2, bench.both, "two workers")):
        if bench.reference_command is None and not bench.reference_urls.get(workers):
            bench.not_run(f"fresh-{workers}", "no reference server is given (--reference, --reference-url)")
            continue
        yield compare(bench, workers, on, label)


def compare(bench, workers, on, label):
    # One worker has its core to itself; two share both with wrk, because there are no more.
    loader = bench.second if workers == 1 else bench.both
    rounds = Rounds(bench, f"fresh, {label}")
    with contextlib.ExitStack() as stack:
        gateway = stack.enter_context(servers.gateway(bench, on, {"http.workers": workers}))
        other = stack.enter_context(servers.reference_server(bench, workers, on))
        loads = one_session(bench, "gateway", gateway.url), one_session(bench, "reference", other)
        sizes, algorithms = zip(*map(servers.inspect, loads))
        if algorithms != ("ES256", "ES256"):
            raise Failure(f"the gateway signs {algorithms[0]}, the reference server {algorithms[1]}; both must sign ES256")

        def run(index):
            outcome = load.run(loads[index], loader, bench.connections, seconds=bench.seconds, size=sizes[index])
            if index == 0:
                gateway.check_log()
                gateway.truncate_log()
            return outcome

        for index in (0, 1):
            run(index)
        pairs = rounds.paired(bench.rounds, lambda: run(0), lambda: run(1))
        for one in loads:
            servers.inspect(one)
    ratios = pairs.ratios(lambda outcome: outcome.rate)
    gateway_rates, reference_rates = pairs.series(lambda outcome: outcome.rate)
    p99 = pairs.series(lambda outcome: outcome.p99_ms)[0]
    return Figure(
        f"fresh-{workers}", f"exchange with fresh data, ES256, {label}, relative to the reference server", ratios.median,
        ratios.low, ratios.high, "", AT_LEAST, TARGET,
        f"{gateway_rates.median:,.0f}/s and {reference_rates.median:,.0f}/s; p99 {p99.median:.1f} ms under full load",
        rounds.warnings(ratios), {"gateway_rates": gateway_rates.values, "reference_rates": reference_rates.values},
    )
