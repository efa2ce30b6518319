"""In which zone is this machine, and which of the brokers' racks is that? Asked by tasks, and only under `client.rack=auto`.

The first of these that says something::

    KAFKA_S3_ZONE                          the environment: set by hand, or from Kubernetes' downward API (`fieldRef`)
    /etc/podinfo/labels                    a volume of the downward API: the pod's label topology.kubernetes.io/zone
    ECS_CONTAINER_METADATA_URI_V4          the agent of ECS and Fargate
    http://169.254.169.254                 AWS's instance metadata, version 2 only

AWS has two names of a zone: its id (euc1-az1), the same for all accounts, and its name (eu-central-1a). Brokers may have either as
`broker.rack` (Amazon MSK has the id), so the one that a broker has is taken. As for AWS's own clients, AWS_EC2_METADATA_DISABLED and
AWS_EC2_METADATA_SERVICE_ENDPOINT hold for the instance metadata.
"""

from __future__ import annotations

import json
import os
import re
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from kafka_s3.connect.config.librdkafka import AUTO_RACK, RACK

VARIABLE: Final = "KAFKA_S3_ZONE"
LABEL: Final = "topology.kubernetes.io/zone"
POD_LABELS: Final = Path("/etc/podinfo/labels")
ECS: Final = "ECS_CONTAINER_METADATA_URI_V4"
INSTANCE: Final = "http://169.254.169.254"
TIMEOUT_S: Final = 1.0
TOKEN_S: Final = 60
_LABEL_LINE: Final = re.compile(rf'^{re.escape(LABEL)}="(.*)"$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Zone:
    """The names of this machine's zone, the likelier ones first, and what said so."""

    names: tuple[str, ...]
    source: str

    def rack_among(self, racks: Iterable[str]) -> str:
        """The name that one of the brokers has as its rack; the first one where none does: then the leaders are read."""
        known = set(racks)
        return next((name for name in self.names if name in known), self.names[0])


def machine_zone(environment: Mapping[str, str] = os.environ, *, pod_labels: Path = POD_LABELS) -> Zone | None:
    """The zone of this machine; None where nothing says it. Waits for a metadata service that is silent, a second at most."""
    given = environment.get(VARIABLE, "").strip()
    if given:
        return Zone((given,), VARIABLE)
    label = _label(pod_labels)
    if label:
        return Zone((label,), f"{LABEL} in {pod_labels}")
    return _by_ecs(environment) or _by_instance(environment)


@lru_cache(maxsize=1)
def own_zone() -> Zone | None:
    """The same, asked once in a process: a machine does not move."""
    return machine_zone()


def with_rack(bootstrap_servers: str, java: Mapping[str, str]) -> dict[str, str]:
    """The properties, by their Java names, with this machine's rack in the place of `auto`; without one where nothing says it.

    Raises SourceError where the zone has two names and the brokers do not say which one they know.
    """
    if java.get(RACK) != AUTO_RACK:
        return dict(java)
    others = {name: value for name, value in java.items() if name != RACK}
    zone = own_zone()
    if zone is None:
        return others
    if len(zone.names) > 1 and bootstrap_servers not in _chosen:
        from kafka_s3.kafka.brokers import KafkaBrokers  # here: few tasks need it

        racks = KafkaBrokers(bootstrap_servers, properties=others).racks()
        _chosen[bootstrap_servers] = zone.rack_among(racks.values())
    return {**others, RACK: _chosen.get(bootstrap_servers, zone.names[0])}


_chosen: Final[dict[str, str]] = {}
"""By brokers: the name of the zone that is one of their racks."""


def _label(path: Path) -> str:
    try:
        found = _LABEL_LINE.search(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return ""
    return found[1].strip() if found else ""


def _by_ecs(environment: Mapping[str, str]) -> Zone | None:
    place = environment.get(ECS, "")
    if not place.startswith("http://"):
        return None
    try:
        zone = json.loads(_answer(urllib.request.Request(f"{place}/task"))).get("AvailabilityZone")
    except (OSError, ValueError, AttributeError):
        return None
    return Zone((zone,), "the agent of ECS") if isinstance(zone, str) and zone else None


def _by_instance(environment: Mapping[str, str]) -> Zone | None:
    if environment.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        return None
    place = (environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or INSTANCE).rstrip("/")
    if not place.startswith("http://"):
        return None
    wanted = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_S)}
    try:
        token = _answer(urllib.request.Request(f"{place}/latest/api/token", method="PUT", headers=wanted))
    except (OSError, ValueError):
        return None
    paths = (f"{place}/latest/meta-data/placement/{name}" for name in ("availability-zone-id", "availability-zone"))
    names = tuple(filter(None, (_named(path, token) for path in paths)))
    return Zone(names, "AWS's instance metadata") if names else None


def _named(url: str, token: str) -> str:
    """What the instance metadata has there; nothing where it has not, as old ones have no ids of zones."""
    try:
        return _answer(urllib.request.Request(url, headers={"X-aws-ec2-metadata-token": token})).strip()
    except (OSError, ValueError):
        return ""


def _answer(request: urllib.request.Request) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy would answer for its own machine
    with opener.open(request, timeout=TIMEOUT_S) as answer:
        return str(answer.read(1 << 16).decode())
