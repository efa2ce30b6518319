"""Whose serializers can have written the records? A choice of the configuration; `connect.registry.framing` has what it means for the bytes."""

from __future__ import annotations

from enum import Enum


class Framing(Enum):
    """Whose serializers wrote the records."""

    CONFLUENT = "confluent"
    GLUE = "glue"
    APICURIO_8 = "apicurio 8"
    APICURIO_4 = "apicurio 4"
    APICURIO_EITHER = "apicurio 4 or 8"
    """Eight bytes where the first four are zero: no id is zero, and none is larger than four bytes hold."""
