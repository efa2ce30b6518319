"""How does an engine get to know an Iceberg table? By its catalog: statements make that known, and say how the table is called.

An engine that cannot ask a catalog of that type sees the topic as a table over the same objects instead (`statements`). Credentials are
never among the statements: each engine has its own way to be given them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit, urlunsplit

CATALOG: Final = "iceberg"
"""What the catalog is called in an engine."""


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """An Iceberg table: the type of its catalog (`rest`, `glue`, `hive`, `sql`), that one's address and warehouse, the table's name in it.

    `catalog_name` is the name under which a database holds the tables of one catalog.
    """

    kind: str
    uri: str
    warehouse: str
    identifier: tuple[str, ...]
    catalog_name: str = CATALOG
    region: str = ""

    @property
    def full_name(self) -> str:
        """The name by which an engine asks for the table."""
        return ".".join((CATALOG, *self.identifier))


def jdbc_url(uri: str) -> str:
    """Return SQLAlchemy's address of a database as Java's drivers spell it, without user and password."""
    scheme = urlsplit(uri).scheme.partition("+")[0]
    return f"jdbc:{scheme}:{public(uri).partition(':')[2]}"


def public(uri: str) -> str:
    """An address without what may be a secret: user and password, and what follows a question mark."""
    parts = urlsplit(uri)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def trino(table: CatalogTable) -> list[str] | None:
    """A catalog of Trino's Iceberg connector, which then has the table."""
    options = {"iceberg.catalog.type": "jdbc" if table.kind == "sql" else table.kind, "fs.native-s3.enabled": "true"}
    match table.kind:
        case "rest":
            options |= {
                "iceberg.rest-catalog.uri": public(table.uri),
                "iceberg.rest-catalog.warehouse": table.warehouse,
            }
        case "hive":
            options |= {"iceberg.catalog.type": "hive_metastore", "hive.metastore.uri": public(table.uri)}
        case "glue":
            options |= {"hive.metastore.glue.region": table.region}
        case _:
            driver = _JDBC_DRIVERS.get(urlsplit(table.uri).scheme.partition("+")[0])
            if driver is None:
                return None
            options |= {
                "iceberg.jdbc-catalog.catalog-name": table.catalog_name, "iceberg.jdbc-catalog.driver-class": driver,
                "iceberg.jdbc-catalog.connection-url": jdbc_url(table.uri),
                "iceberg.jdbc-catalog.default-warehouse-dir": table.warehouse,
            }  # fmt: skip
    given = ",\n".join(f'  "{key}" = {_text(value)}' for key, value in options.items() if value)
    return [f"CREATE CATALOG {CATALOG} USING iceberg\nWITH (\n{given}\n)"]


_JDBC_DRIVERS: Final = {"postgresql": "org.postgresql.Driver", "mysql": "com.mysql.cj.jdbc.Driver"}
"""The databases that Trino's connector has drivers for."""


def athena(table: CatalogTable) -> list[str] | None:
    """Athena has the tables of AWS Glue, and of no other catalog: nothing is to be run."""
    return [] if table.kind == "glue" else None


STATEMENTS: Final[Mapping[str, Callable[[CatalogTable], list[str] | None]]] = {
    "athena": athena,
    "trino": trino,
}
"""By engine: what is to be run; None where the engine cannot ask such a catalog."""


def note(table: CatalogTable, engine: str) -> str:
    """What the reader has to know of the statements."""
    if engine == "athena":
        return f"The sink keeps the Iceberg table {'.'.join(map(_quoted, table.identifier))} in AWS Glue: Athena has it already."
    return f"Iceberg table {table.full_name}. Credentials of catalog and bucket are set apart."


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + re.sub("'", "''", value) + "'"
