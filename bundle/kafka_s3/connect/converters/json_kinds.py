"""What is a member of a JSON document? Numbers for it, which compiled loops and Python share."""

from __future__ import annotations

MISSING, NULL, TRUE, FALSE, WHOLE, FRACTION, TEXT, ESCAPED, NESTED = range(9)
"""What a member is: not there, a literal, a number without or with fraction or exponent, a string without or with escapes, or more."""
