"""A stand-in for the API server of Kubernetes on a loopback port: it stores objects, and runs nothing.

kubectl and helm work with it as far as they create, read, change and list objects. A change with an old resource version is a
conflict (409). Deployments are complete at once. `rules` restricts the requests to those of a Role. Clients may send protocol
buffers, which tools/decode reads; responses are JSON.
"""

import base64
import contextlib
import itertools
import json
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

# Kind, plural and group of what can be stored.
KINDS = {
    "v1": {
        "ConfigMap": "configmaps", "Namespace": "namespaces", "Secret": "secrets", "Service": "services",
        "ServiceAccount": "serviceaccounts",
    },
    "apps/v1": {"Deployment": "deployments"},
    "batch/v1": {"CronJob": "cronjobs", "Job": "jobs"},
    "policy/v1": {"PodDisruptionBudget": "poddisruptionbudgets"},
    "networking.k8s.io/v1": {"Ingress": "ingresses", "NetworkPolicy": "networkpolicies"},
    "rbac.authorization.k8s.io/v1": {"Role": "roles", "RoleBinding": "rolebindings"},
    "monitoring.coreos.com/v1": {"PrometheusRule": "prometheusrules", "ServiceMonitor": "servicemonitors"},
    "gateway.networking.k8s.io/v1": {"HTTPRoute": "httproutes"},
}
VERBS = ["create", "delete", "get", "list", "patch", "update"]


class Refused(Exception):
    def __init__(self, code, reason, message):
        super().__init__(message)
        self.status = {
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
        }


class Cluster:
    def __init__(self):
        self.objects = {}
        self.rules = None
        self.versions = itertools.count(1)
        self.lock = threading.Lock()

    def get(self, plural, name, namespace="auth-gateway"):
        return self.objects[plural, namespace, name]

    def secret(self, name):
        return {key: base64.b64decode(value) for key, value in self.get("secrets", name)["data"].items()}

    def store(self, plural, namespace, value):
        name = value["metadata"]["name"]
        value["metadata"] |= {"namespace": namespace, "resourceVersion": str(next(self.versions)), "generation": 1}
        value["metadata"].setdefault("uid", f"uid-{plural}-{name}")
        if plural == "secrets":
            for key, text in value.pop("stringData", {}).items():
                value.setdefault("data", {})[key] = base64.b64encode(text.encode()).decode()
        if plural == "deployments":
            replicas = value["spec"]["replicas"]
            counts = {count: replicas for count in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")}
            value["status"] = {"observedGeneration": 1, **counts}
        self.objects[plural, namespace, name] = value
        return value

    def permit(self, verb, plural, name):
        allowed = self.rules is None or any(
            verb in rule["verbs"] and plural in rule["resources"] and name in rule["resourceNames"] for rule in self.rules
        )
        if not allowed:
            raise Refused(403, "Forbidden", f"{verb} {plural} {name}")

    def respond(self, method, path, query, body):
        if path == "/version":
            return {"major": "1", "minor": "31", "gitVersion": "v1.31.0"}
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == "/apis":
            groups = [version.split("/")[0] for version in KINDS if "/" in version]
            version = lambda group: {"groupVersion": f"{group}/v1", "version": "v1"}
            return {
                "kind": "APIGroupList",
                "groups": [{"name": group, "versions": [version(group)], "preferredVersion": version(group)} for group in groups],
            }
        version, _, rest = path.removeprefix("/apis/" if path.startswith("/apis/") else "/api/").partition("/namespaces/")
        if version in KINDS and not rest:
            if method == "POST":
                return self.create("namespaces", "", body)
            resources = [
                {"name": plural, "singularName": "", "kind": kind, "namespaced": kind != "Namespace", "verbs": VERBS}
                for kind, plural in KINDS[version].items()
            ]
            return {"kind": "APIResourceList", "groupVersion": version, "resources": resources}
        if version == "v1/namespaces":
            return self.create("namespaces", "", body)
        namespace, plural, name = (*rest.split("/"), "", "")[:3]
        if not plural:
            plural, namespace, name = "namespaces", "", namespace
        if plural not in KINDS.get(version, {}).values():
            raise Refused(404, "NotFound", f"{method} {path}")
        return self.of_object(method, version, plural, namespace, name, query, body)

    def of_object(self, method, version, plural, namespace, name, query, body):
        if method == "POST":
            return self.create(plural, namespace, body)
        if not name:
            self.permit("list", plural, name)
            (kind,) = [kind for kind, other in KINDS[version].items() if other == plural]
            found = [value for (*place, _), value in self.objects.items() if place == [plural, namespace] and matches(value, query)]
            return {"kind": f"{kind}List", "apiVersion": version, "metadata": {"resourceVersion": "1"}, "items": found}
        self.permit({"GET": "get", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}[method], plural, name)
        old = self.objects.get((plural, namespace, name))
        if old is None:
            raise Refused(404, "NotFound", f'{plural} "{name}" not found')
        if method == "GET":
            return old
        if method == "DELETE":
            return self.objects.pop((plural, namespace, name))
        expected = body.get("metadata", {}).get("resourceVersion", old["metadata"]["resourceVersion"])
        if expected != old["metadata"]["resourceVersion"]:
            raise Refused(409, "Conflict", f"{plural} {name}: the object has been modified")
        return self.store(plural, namespace, merge_patch(old, body) if method == "PATCH" else body)

    def create(self, plural, namespace, body):
        name = body["metadata"]["name"]
        self.permit("create", plural, name)
        if (plural, namespace, name) in self.objects:
            raise Refused(409, "AlreadyExists", f'{plural} "{name}" already exists')
        return self.store(plural, namespace, body)


def matches(value, query):
    """By a field selector for the name, and a label selector with equality."""
    labels = {"metadata.name": value["metadata"]["name"], **value["metadata"].get("labels", {})}
    conditions = ",".join(query.get("fieldSelector", []) + query.get("labelSelector", [])).split(",")
    return all(labels.get(name) == wanted for name, _, wanted in (one.partition("=") for one in conditions if one))


def merge_patch(old, patch):
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    old = old if isinstance(old, dict) else {}
    merged = {name: merge_patch(old.get(name), value) for name, value in patch.items() if value is not None}
    return {name: value for name, value in old.items() if name not in patch} | merged


@contextlib.contextmanager
def running(decode):
    """A cluster, and the file for KUBECONFIG. `decode` is the program of tools/decode."""
    cluster = Cluster()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_request(self):
            url = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            content = self.rfile.read(length)
            if self.headers.get("Content-Type") == "application/vnd.kubernetes.protobuf":
                content = subprocess.run([decode], input=content, stdout=subprocess.PIPE, check=True, timeout=20).stdout
            body = json.loads(content) if content else None
            code = 200
            with cluster.lock:
                try:
                    answer = cluster.respond(self.command, url.path, parse_qs(url.query), body)
                except Refused as refused:
                    answer, code = refused.status, refused.status["code"]
            content = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_request

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    context = {"cluster": "test", "user": "test"}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kubeconfig"
        file.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test", "users": [{"name": "test", "user": {}}],
            "clusters": [{"name": "test", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
            "contexts": [{"name": "test", "context": context}],
        }))
        try:
            yield cluster, file
        finally:
            server.shutdown()
            server.server_close()
