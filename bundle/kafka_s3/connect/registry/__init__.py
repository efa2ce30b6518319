"""How is the schema found that a record names? The wire format, and the clients of schema registries.

The schema languages themselves are elsewhere; nothing here writes to a registry. The clients are in `connect.registry.client`
(Confluent's, which alone needs the extra packages of `confluent-kafka[schemaregistry]`), `connect.registry.glue` and
`connect.registry.apicurio`.
"""
