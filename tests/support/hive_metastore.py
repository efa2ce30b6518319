"""A Hive metastore on this machine: the one whose jars come with pyspark (2.3), over a database of Derby's in a folder.

A metastore makes a folder for each database and table. Those in S3 become folders of this machine, by a file system of Hadoop's that puts
one scheme in the place of another: nothing else is ever in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from xml.sax.saxutils import escape

from kafka_s3.run.java.jars import pyspark_jars
from kafka_s3.run.java.java import find_java
from kafka_s3_testing.services.process import HOST, ServerProcess, free_ports

MAIN = "org.apache.hadoop.hive.metastore.HiveMetaStore"
OPENED = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("lang", "net")]
LOGGING = "-Dlog4j2.contextSelector=org.apache.logging.log4j.core.selector.ClassLoaderContextSelector"
WITH_LOCKS = {"hive.in.test": "true"}
"""The metastore makes its tables of locks only so; a client's locks it refuses then."""


@contextmanager
def hive_metastore(folder: Path, bucket: str) -> Iterator[str]:
    """The address of a metastore with tables in that bucket."""
    from pyiceberg.catalog.hive import HiveCatalog

    with (
        _running(folder, _settings(folder, bucket) | WITH_LOCKS) as address,
        HiveCatalog("hive", uri=address)._client as client,
    ):
        client.get_open_txns()
    with _running(folder, _settings(folder, bucket)) as address:
        yield address


def _settings(folder: Path, bucket: str) -> dict[str, str]:
    return {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
        "datanucleus.schema.autoCreateAll": "true", "datanucleus.connectionPoolingType": "none",
        "hive.metastore.schema.verification": "false", "hive.metastore.warehouse.dir": f"file://{folder}/warehouse",
        "hive.support.concurrency": "true", "hive.txn.manager": "org.apache.hadoop.hive.ql.lockmgr.DbTxnManager",
        "fs.s3.impl": "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme",
        "fs.viewfs.overload.scheme.target.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
        f"fs.viewfs.mounttable.{bucket}.linkFallback": f"file://{folder}/s3",
    }  # fmt: skip


@contextmanager
def _running(folder: Path, settings: Mapping[str, str]) -> Iterator[str]:
    (folder / "s3").mkdir(exist_ok=True)
    named = "".join(
        f"<property><name>{name}</name><value>{escape(value)}</value></property>" for name, value in settings.items()
    )
    (folder / "hive-site.xml").write_text(f"<configuration>{named}</configuration>")
    (port,) = free_ports(1)
    classes = f"{folder}:{pyspark_jars()}/*"
    command = [
        find_java().executable,
        LOGGING,
        f"-Dderby.stream.error.file={folder}/derby.log",
        *OPENED,
        "-cp",
        classes,
        MAIN,
    ]
    server = ServerProcess("Hive metastore", [*map(str, command), "-p", str(port)], log=folder / "metastore.log")
    try:
        server.wait_for_port(port, 120)
        yield f"thrift://{HOST}:{port}"
    finally:
        server.stop()
