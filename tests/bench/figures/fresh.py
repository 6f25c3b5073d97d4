"""An exchange with cached data, compared with another server that does the same work over the same HTTP."""

import contextlib

import load
import servers
from report import AT_LEAST, Figure
from rounds import Rounds
from wire import Failure

TARGET = 0.75


def one_session(bench, name, url):
    """The load that one session makes: each exchange but the first finds fresh knowledge."""
    bodies = bench.folder / f"fresh-{name.replace(' ', '-')}"
    bodies.write_text(servers.exchange_body(servers.log_in(url)) + "\n")
    return servers.exchanges(name, url, bodies)


def measure(bench):
    for workers, on, label in ((1, bench.first, "one worker"), (2, bench.both, "two workers")):
        if bench.yardstick_command is None and not bench.yardstick_urls.get(workers):
            bench.not_run(f"fresh-{workers}", "no yardstick is given (--yardstick, --yardstick-url)")
            continue
        yield against_yardstick(bench, workers, on, label)


def against_yardstick(bench, workers, on, label):
    # One worker has its core to itself; two share both with wrk, because there are no more.
    loader = bench.second if workers == 1 else bench.both
    rounds = Rounds(bench, f"fresh, {label}")
    with contextlib.ExitStack() as stack:
        gateway = stack.enter_context(servers.gateway(bench, on, {"http.workers": workers}))
        other = stack.enter_context(servers.yardstick(bench, workers, on))
        loads = one_session(bench, "gateway", gateway.url), one_session(bench, "yardstick", other)
        sizes, algorithms = zip(*map(servers.inspected, loads))
        if algorithms != ("ES256", "ES256"):
            raise Failure(f"the gateway signs {algorithms[0]}, the yardstick {algorithms[1]}: ES256 is measured")

        def run(index):
            outcome = load.run(loads[index], loader, bench.connections, seconds=bench.seconds, size=sizes[index])
            if index == 0:
                gateway.check_log()
                gateway.forget_log()
            return outcome

        for index in (0, 1):
            run(index)
        pairs = rounds.paired(bench.rounds, lambda: run(0), lambda: run(1))
        for one in loads:
            servers.inspected(one)
    ratios = pairs.ratios(lambda outcome: outcome.rate)
    ours, theirs = pairs.series(lambda outcome: outcome.rate)
    p99 = pairs.series(lambda outcome: outcome.p99_ms)[0]
    return Figure(
        f"fresh-{workers}", f"exchange with fresh knowledge, ES256, {label}, against the yardstick", ratios.median,
        ratios.low, ratios.high, "", AT_LEAST, TARGET,
        f"{ours.median:,.0f}/s against {theirs.median:,.0f}/s; p99 {p99.median:.1f} ms under full load",
        rounds.doubts(ratios), {"gateway_rates": ours.values, "yardstick_rates": theirs.values},
    )
