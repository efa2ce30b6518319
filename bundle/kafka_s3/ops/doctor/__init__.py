"""Would this sink run here? Everything that it will need is tried, and every answer is a finding: ok, warning or failed.

`finding` is what is said, `diagnosis` the order of the questions; `configuration`, `kafka`, `registry`, `bucket` and `rights` ask them.
"""
