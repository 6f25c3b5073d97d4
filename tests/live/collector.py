#!/usr/bin/env python3
"""Builds an OpenTelemetry Collector with the components in collector/ and starts instances of it, for the live tests.

    collector.py fetch           build the program; print it
    collector.py start           run one instance until it is killed (see launcher.py)
    collector.py stop FOLDER     stop every instance whose home is in FOLDER, and remove the homes

The facts of an instance are `endpoint`, the base URL of its receiver of OTLP over HTTP, and `spans`, the file to which it
appends what it receives: OTLP messages, each after its length in four bytes.
"""

import os
import shutil
import urllib.request
from pathlib import Path

from launcher import Server, main
from machine import go_program

FOLDER = Path(__file__).resolve().parent / "collector"
CONFIGURATION, SPANS = "collector.yaml", "spans"


class Collector(Server):
    name = "collector"

    def fetch(self):
        return go_program(FOLDER, ".", "collector")

    def prepare(self, home, port, options):
        shutil.copyfile(FOLDER / CONFIGURATION, home / CONFIGURATION)
        variables = {"COLLECTOR_ENDPOINT": f"127.0.0.1:{port}", "COLLECTOR_SPANS": str(home / SPANS)}
        return [self.fetch(), "--config", f"file:{home / CONFIGURATION}"], {**os.environ, **variables}

    def facts(self, home, port):
        endpoint = f"http://127.0.0.1:{port}"
        empty = urllib.request.Request(f"{endpoint}/v1/traces", b"{}", {"Content-Type": "application/json"})
        urllib.request.urlopen(empty, timeout=5).close()
        return {"endpoint": endpoint, "spans": str(home / SPANS)}


if __name__ == "__main__":
    main(Collector(), __doc__)
