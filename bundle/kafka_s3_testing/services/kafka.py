"""How do the demo and the tests get a real Kafka? One broker in KRaft mode, broker and controller in one JVM; others can join it."""

from __future__ import annotations

import base64
import shutil
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from kafka_s3.model.errors import KafkaUnavailable
from kafka_s3.run.java.cache import LocalServiceError
from kafka_s3.run.java.jars import kafka_jars
from kafka_s3.run.java.java import WRITTEN_S, ClassArchive, find_java
from kafka_s3_testing.services.guard import GRACE_SECONDS
from kafka_s3_testing.services.process import HOST, ServerProcess, free_ports, require_free

START_SECONDS = 60.0
# A short life in little memory: the quick compiler alone starts a quarter faster and leaves more of two cores to Spark.
FAST_START = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
# One topic-partition each for the internal topics, no waiting for consumers, and records of any time are taken and kept.
SETTINGS = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "num.partitions": "1",
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.ms": "-1",
    "log.retention.bytes": "-1",
    "log.cleaner.backoff.ms": "100",  # what is to be compacted is so at once
    "log.roll.ms": str(100 * 365 * 24 * 3_600_000),
    "log.message.timestamp.before.max.ms": str(2**63 - 1),
    "log.message.timestamp.after.max.ms": str(2**63 - 1),
    "message.max.bytes": str(16 * 1024 * 1024),
}  # fmt: skip


class EmbeddedKafka:
    """A Kafka 4.1 broker on this machine; a context manager. Its data is gone when it stops. `settings` are the broker's own, beyond ours;
    `listeners` among them are further ones, beside the plain one; `advertised.listeners` say how clients reach those through a proxy.
    Its JVM starts quickly, from the archive of Kafka's classes, unless `java_options` are given; `grace_s` is how long it may take to stop.
    With `joins` it is broker `node` of that one's cluster, and leaves the metadata to it.

    Raises LocalServiceError where Java or the jars cannot be had or the broker does not start; the text then holds the end of its log.
    """

    def __init__(
        self,
        port: int | None = None,
        *,
        java_options: Sequence[str] | None = None,
        settings: Mapping[str, str] | None = None,
        joins: EmbeddedKafka | None = None,
        node: int = 1,
        grace_s: float = GRACE_SECONDS,
    ) -> None:
        free, own = free_ports(2)
        self.port = port or free
        self.node = node
        self._joins = joins
        self._controller_port: int = own if joins is None else joins._controller_port
        self._cluster_id = ""
        self._java_options = java_options
        self._grace_s = grace_s
        self._settings = dict(settings or {})
        self._folder: Path | None = None
        self._process: ServerProcess | None = None

    @property
    def bootstrap_servers(self) -> str:
        """`host:port`, the value of `kafka.bootstrap.servers`."""
        return f"{HOST}:{self.port}"

    def start(self) -> None:
        """Starts the broker and returns once it answers; does nothing where it runs."""
        if self._process is None:
            require_free(self.port)
            if self._folder is None:
                self._folder = self._new_folder()
            self._process = self._launch(self._folder)
            try:
                self._wait(self._process)
            except BaseException:
                self.stop()
                raise

    def restart(self) -> None:
        """Stops and starts the broker: same port, same data."""
        self.halt()
        self.start()

    def halt(self) -> None:
        """Stops the broker and keeps its data: the next start goes on with it, on the same port."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def stop(self) -> None:
        """Stops the broker and deletes its data; does nothing where it does not run."""
        self.halt()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def partition_folder(self, topic: str, partition: int) -> Path:
        """Where the broker keeps a topic-partition's segments. Raises LocalServiceError where it was never started."""
        if self._folder is None:
            raise LocalServiceError("The Kafka broker has no data yet: start it first.")
        return self._folder / "data" / f"{topic}-{partition}"

    def create_topic(self, name: str, partitions: int = 1, *, config: Mapping[str, str] | None = None) -> None:
        """Creates a topic; one that exists already is left as it is."""
        from kafka_s3.kafka.brokers import KafkaBrokers

        KafkaBrokers(self.bootstrap_servers).create_topic(name, partitions=partitions, config=config)

    def log_tail(self) -> str:
        """The last lines of the broker's output, empty where it does not run."""
        return self._process.log_tail() if self._process else ""

    def __enter__(self) -> Self:
        """The started broker."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops the broker."""
        self.stop()

    def _new_folder(self) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="kafka-s3-broker-"))
        plain, further = f"PLAINTEXT://{self.bootstrap_servers}", self._settings.get("listeners")
        clients = ",".join(filter(None, [plain, further]))
        advertised = ",".join(filter(None, [plain, self._settings.get("advertised.listeners", further)]))
        controller = f"CONTROLLER://{HOST}:{self._controller_port}"
        joined = {"process.roles": "broker", "listeners": clients}
        role = joined if self._joins else {"listeners": f"{clients},{controller}"}
        settings = (
            SETTINGS
            | self._settings
            | role
            | {
                "node.id": str(self.node),
                "advertised.listeners": advertised,
                "controller.quorum.voters": f"1@{HOST}:{self._controller_port}",
                "log.dirs": str(folder / "data"),
            }
        )
        (folder / "server.properties").write_text(_properties(settings))
        # What Kafka's StorageTool would write in a JVM of its own, which takes as long as the broker takes to start.
        (folder / "data").mkdir()
        self._cluster_id = self._joins._cluster_id if self._joins else _kafka_id()
        identity = {
            "version": "1",
            "node.id": str(self.node),
            "cluster.id": self._cluster_id,
            "directory.id": _kafka_id(),
        }
        (folder / "data" / "meta.properties").write_text(_properties(identity))
        return folder

    def _launch(self, folder: Path) -> ServerProcess:
        java, options = find_java(), self._java_options
        if options is None:
            options = [*FAST_START, *kafka_classes().options(java)]
        command: list[str | Path] = [
            java.executable, *options, "-Dorg.apache.logging.log4j.level=WARN",
            "-cp", str(kafka_jars()[0].parent / "*"), "kafka.Kafka", folder / "server.properties",
        ]  # fmt: skip
        return ServerProcess("The Kafka broker", command, log=folder / "broker.log", grace_s=self._grace_s)

    def _wait(self, process: ServerProcess) -> None:
        from kafka_s3.kafka.brokers import wait_until_ready

        deadline = time.monotonic() + START_SECONDS
        process.wait_for_port(self.port, START_SECONDS)
        while True:
            try:
                return wait_until_ready(self.bootstrap_servers, 5)
            except KafkaUnavailable as error:
                process.check()
                if time.monotonic() > deadline:
                    raise process.failure(f"did not answer within {START_SECONDS:.0f} s") from error


def kafka_classes() -> ClassArchive:
    """The archive of the classes of Kafka's broker. Raises LocalServiceError where its jars cannot be had."""
    return ClassArchive("Kafka", kafka_jars()[0].parent, _write_classes)


def _write_classes(options: Sequence[str]) -> None:
    with EmbeddedKafka(java_options=(*FAST_START, *options), grace_s=WRITTEN_S) as broker:
        broker.create_topic("any")


def _properties(settings: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def _kafka_id() -> str:
    """A random id in Kafka's spelling; one that begins with a dash would look like an option in Kafka's tools."""
    while True:
        identity = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not identity.startswith("-"):
            return identity


if __name__ == "__main__":
    kafka_classes().options(find_java())
