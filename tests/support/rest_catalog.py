"""A REST catalog on this machine: the server with which Iceberg tests its own clients, over a database in a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_s3.run.java.jars import pyspark_jars, resolve
from kafka_s3.run.java.java import find_java
from kafka_s3_testing.services.process import ServerProcess, free_ports
from kafka_s3_testing.services.s3 import ACCESS_KEY, REGION, SECRET_KEY

if TYPE_CHECKING:
    from kafka_s3_testing.services.s3 import EmbeddedS3

ICEBERG = "1.10.1"
JARS = (
    f"org.apache.iceberg:iceberg-core:{ICEBERG}",
    f"org.apache.iceberg:iceberg-core:{ICEBERG}:tests",
    f"org.apache.iceberg:iceberg-open-api:{ICEBERG}:test-fixtures",
    f"org.apache.iceberg:iceberg-aws:{ICEBERG}",
    f"org.apache.iceberg:iceberg-aws-bundle:{ICEBERG}",
    "org.eclipse.jetty:jetty-servlet:11.0.26",
    "org.xerial:sqlite-jdbc:3.50.3.0",
    "org.slf4j:slf4j-simple:2.0.17",
)
MAIN = "org.apache.iceberg.rest.RESTCatalogServer"


@contextmanager
def rest_catalog(objects: EmbeddedS3, warehouse: str, folder: Path) -> Iterator[str]:
    """The address of a catalog whose tables' metadata lies in `warehouse`, on that S3 server."""
    (port,) = free_ports(1)
    path = [*resolve(JARS), *pyspark_jars().glob("hadoop-client-*.jar")]
    java = find_java().executable
    environment = {
        "CATALOG_REST_PORT": str(port), "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
        "CATALOG_URI": f"jdbc:sqlite:{folder}/rest.db", "CATALOG_JDBC_SCHEMA__VERSION": "V1", "CATALOG_WAREHOUSE": warehouse,
        "CATALOG_IO__IMPL": "org.apache.iceberg.aws.s3.S3FileIO", "CATALOG_S3_ENDPOINT": objects.endpoint_url,
        "CATALOG_S3_PATH__STYLE__ACCESS": "true", "CATALOG_S3_ACCESS__KEY__ID": ACCESS_KEY,
        "CATALOG_S3_SECRET__ACCESS__KEY": SECRET_KEY, "CATALOG_CLIENT_REGION": REGION,
    }  # fmt: skip
    command = [java, "-cp", ":".join(map(str, path)), MAIN]
    server = ServerProcess("REST catalog", command, log=folder / "rest.log", environment=environment)
    try:
        server.wait_for_port(port, 60)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop()
