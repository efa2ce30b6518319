"""How is the schema found that a record names? The wire format, subject names, and a client of the schema registry.

The schema languages themselves are elsewhere; nothing here writes to a registry. The clients are in `connect.registry.client` (Confluent's, which
alone needs the extra packages of `confluent-kafka[schemaregistry]`), `connect.registry.glue` and `connect.registry.apicurio`.
"""
