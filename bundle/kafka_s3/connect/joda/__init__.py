"""How does Joda-Time read zones, patterns and instants? The time arithmetic that object names depend on (SEMANTICS A4.2, A4.3, A5)."""
