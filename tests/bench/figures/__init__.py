"""One module for each group of figures. `measure(bench)` of each yields its figures."""

from figures import (
    added, audit, capacity, connections, directory, flood, fresh, memory, mock, refresh, replicas, sessions, stale, start, tail,
    tls,
)

# In the order of measurement: first those without Keycloak, because a running Keycloak uses processor time.
MODULES = {
    "start": start,
    "memory": memory,
    "mock": mock,
    "replicas": replicas,
    "capacity": capacity,
    "connections": connections,
    "flood": flood,
    "sessions": sessions,
    "tail": tail,
    "tls": tls,
    "audit": audit,
    "directory": directory,
    "fresh": fresh,
    "refresh": refresh,
    "stale": stale,
    "added": added,
}
