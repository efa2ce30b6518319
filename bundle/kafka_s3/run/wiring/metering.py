"""Who is given the numbers of a process's sinks? Whoever the configurations name: Prometheus at a port, a collector by OTLP, or nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Final

from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.protocols import Observer
from kafka_s3.run.metrics import otlp, prometheus
from kafka_s3.run.metrics.instruments import Sample
from kafka_s3.run.metrics.memory import memory_samples
from kafka_s3.run.metrics.sink_metrics import SinkMetrics

PORT: Final = "metrics.prometheus.port"
OTLP: Final = "metrics.otlp.enable"


@dataclass
class Metering:
    """The numbers of a process: those of each sink that is `metered`, and its memory."""

    _sinks: list[SinkMetrics] = field(default_factory=list)

    def sink(self, settings: Settings, observer: Observer, clock_ms: Callable[[], int]) -> SinkMetrics:
        """An observer that counts what the sink does, and passes it on."""
        one = SinkMetrics(settings.name, inner=observer, clock_ms=clock_ms)
        self._sinks.append(one)
        return one

    def samples(self) -> Iterable[Sample]:
        """Everything as it is now."""
        return [sample for sink in self._sinks for sample in sink.samples()] + list(memory_samples())


@contextmanager
def metering(sinks: Sequence[Settings]) -> Iterator[Metering | None]:
    """Gives the numbers of all sinks to whoever one of them names, while the body runs; None where none does.

    Raises ConfigError where a package is missing, SinkError where the port is taken.
    """
    ports = sorted({port for one in sinks if (port := one.number(PORT))})
    sends = any(one.flag(OTLP) for one in sinks)
    if ports:
        _check_package("prometheus_client", PORT, str(ports[0]), extra="metrics")
    if sends:
        _check_package("opentelemetry.exporter.otlp.proto.http", OTLP, "true", extra="otlp")
    if not ports and not sends:
        yield None
        return
    found = Metering()
    with ExitStack() as stack:
        for port in ports:
            stack.enter_context(prometheus.served(found.samples, port))
        if sends:
            stack.enter_context(otlp.sent(found.samples))
        yield found


def _check_package(module: str, key: str, value: str, *, extra: str) -> None:
    """Raises ConfigError where it is not installed."""
    try:
        there = find_spec(module) is not None
    except ModuleNotFoundError:  # a package above it is missing
        there = False
    if not there:
        rule = f"needs {module}, which is not installed here."
        raise ConfigError([Problem(key, value, rule, f"pip install 'kafka-s3[{extra}]'")])
