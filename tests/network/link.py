"""Network namespaces, and links to them that lose, delay and cut packets.

A link is a pair of TUN devices and a forwarder in user space, so it needs no module of the kernel: many kernels have no
`sch_netem` for `tc netem`. The TCP on both sides is that of the kernel, with its retransmissions and timeouts.
"""

import fcntl
import heapq
import itertools
import os
import random
import select
import struct
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

import machine

# linux/if_tun.h
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
PACKET_MAX = 65536
# Until a link that carries nothing notices its end.
PAUSE_MAX_SECONDS = 0.1
# For a command of iproute2, and for the start of a namespace.
COMMAND_SECONDS = 20


def isolated(tools):
    """Executes the script again in namespaces of its own, in which everything that it starts ends with it."""
    if os.environ.get("NETWORK_ISOLATED"):
        for command in (["ip", "link", "set", "lo", "up"], ["mount", "--make-rprivate", "/"]):
            machine.build(command)
        return
    machine.debian(*tools)
    # Another user than root is root in a user namespace, where the machine permits it.
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    unshare = ["unshare", *user, "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    trial = "ip tuntap add dev trial mode tun"
    code, output = machine.run([*unshare, "sh", "-c", trial])
    if code != 0:
        raise machine.CannotRun(f"namespaces with TUN devices: {output or f'exit code {code}'}")
    os.environ["NETWORK_ISOLATED"] = "yes"
    os.execvp(unshare[0], [*unshare, sys.executable, *sys.argv])


@dataclass(frozen=True)
class Fault:
    """What happens to the packets in one direction."""

    loss: float = 0.0
    # Seconds, between these two, for each packet by itself, so that packets overtake each other.
    delay: tuple = (0.0, 0.0)


NONE, CUT = Fault(), Fault(loss=1.0)


class Namespace:
    """A network namespace, as long as its process runs."""

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"], stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + COMMAND_SECONDS
        while self._name() == os.readlink("/proc/self/ns/net"):
            if time.monotonic() > deadline:
                raise RuntimeError("unshare makes no namespace")
            time.sleep(0.01)
        machine.build(self.inside("ip", "link", "set", "lo", "up"))

    def _name(self):
        return os.readlink(f"/proc/{self.holder.pid}/ns/net")

    def inside(self, *command):
        """The command that runs a command in it."""
        return ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net", *command]

    def end(self):
        machine.end(self.holder)


class Link(threading.Thread):
    """From the namespace of the script, where it has the address `here`, to another one, where it has `there`."""

    def __init__(self, number, namespace, seed):
        super().__init__(daemon=True)
        self.here, self.there = f"10.77.{number}.1", f"10.77.{number}.2"
        names = f"near{number}", f"far{number}"
        self.near, self.far = map(_open_device, names)
        machine.build(["ip", "link", "set", names[1], "netns", str(namespace.holder.pid)])
        ends = [(names[0], self.here, self.there, lambda *command: command), (names[1], self.there, self.here, namespace.inside)]
        for name, own, peer, inside in ends:
            machine.build(inside("ip", "address", "add", own, "peer", peer, "dev", name))
            machine.build(inside("ip", "link", "set", name, "addrgenmode", "none", "up"))
        self.random, self.stopping = random.Random(seed), threading.Event()
        # By the time at which they are due; the number keeps the order of equal times.
        self.waiting, self.numbers = [], itertools.count()
        self.heal()

    def set(self, there=NONE, back=NONE):
        self.faults = {self.near: there, self.far: back}
        self.dropped = 0

    def cut(self):
        self.set(CUT, CUT)

    def heal(self):
        self.set()

    def run(self):
        poll = select.poll()
        for device in (self.near, self.far):
            poll.register(device, select.POLLIN)
        while not self.stopping.is_set():
            pause = max(0, self.waiting[0][0] - time.monotonic()) if self.waiting else PAUSE_MAX_SECONDS
            # A millisecond is the resolution of `poll`.
            for device, _ in poll.poll(1000 * min(pause, PAUSE_MAX_SECONDS)):
                self.receive(device)
            while self.waiting and self.waiting[0][0] <= time.monotonic():
                _, _, device, packet = heapq.heappop(self.waiting)
                os.write(device, packet)

    def receive(self, device):
        fault, packet = self.faults[device], os.read(device, PACKET_MAX)
        if self.random.random() < fault.loss:
            self.dropped += 1
            return
        due = time.monotonic() + self.random.uniform(*fault.delay)
        other = self.far if device == self.near else self.near
        heapq.heappush(self.waiting, (due, next(self.numbers), other, packet))

    def end(self):
        """Before the namespace ends, and its device with it."""
        self.stopping.set()
        self.join()
        os.close(self.near)
        os.close(self.far)


def _open_device(name):
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return device
