"""Which addresses may no configuration name? Those of the clouds' metadata services, under any key.

Names that lead to one are found where they are connected to (`model.addresses`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from kafka_s3.connect.config.rules.rule import Rule, problem
from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.addresses import is_metadata_service
from kafka_s3.model.errors import Problem

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s,;\"'<>]+")
OWN_RULE: Final = "registry.url"
"""How keys end whose addresses are looked at where the registry is."""
PLACES: Final = ("kafka.bootstrap.servers", "s3.proxy.url", "store.url")
"""Keys whose addresses need no `http://` before them."""


def hosts(key: str, text: str) -> Iterator[str]:
    """The hosts of the addresses in a value."""
    urls = _URL.findall(text)
    if key in PLACES or key.endswith(".proxyUrl"):
        urls += [f"//{part.strip()}" for part in text.split(",") if "://" not in part]
    for url in urls:
        try:
            yield urlsplit(url).hostname or ""
        except ValueError:
            continue  # no address at all, which its own rule says


def _no_metadata_service(settings: Settings) -> Iterator[Problem]:
    for key, text in {**settings.worker, **settings.source}.items():
        if not key.endswith(OWN_RULE) and any(map(is_metadata_service, hosts(key, text))):
            rule = "is a link-local address or a cloud's metadata service, which hands out this machine's credentials."
            yield problem(key, rule, "Name the service that is meant.")


PROBLEMS: Final = (Rule((), _no_metadata_service),)
