"""One module for each group of figures. Each measures by `measure(bench)` and returns the figures that it names."""

from figures import added, fresh, memory, mock, refresh, replicas, stale, start, tail

# In the order in which they are measured: without Keycloak first, so that it is not in the way.
MODULES = {
    "start": start,
    "memory": memory,
    "mock": mock,
    "replicas": replicas,
    "tail": tail,
    "fresh": fresh,
    "refresh": refresh,
    "stale": stale,
    "added": added,
}
