"""How does a configuration become a running process? Its objects (`wiring`), its Spark session (`spark`), its Java, its numbers."""
