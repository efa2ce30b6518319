"""How is the schema found that a record names? The wire format, subject names, and a client of the schema registry.

The schema languages themselves are elsewhere; nothing here writes to a registry. The client is in `registry.client`, which alone needs
the extra packages of `confluent-kafka[schemaregistry]`.
"""
