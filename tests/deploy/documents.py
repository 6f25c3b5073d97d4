"""Reads YAML for the scripts in this folder, with a Python environment that has the packages of requirements.txt."""

import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "live"))
import machine


def environment():
    """The Python with the pinned packages."""
    return machine.virtual_environment("deploy-venv", Path(__file__).with_name("requirements.txt"))


def parse(python, text):
    """The documents in a YAML text."""
    script = "import json, sys, yaml; json.dump(list(yaml.safe_load_all(sys.stdin)), sys.stdout)"
    done = subprocess.run([python, "-c", script], input=text, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)
