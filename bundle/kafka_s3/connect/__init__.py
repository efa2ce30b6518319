"""What of Kafka Connect do users rely on? Its configuration, converters, transforms, schemas, registries, and the names of objects."""
