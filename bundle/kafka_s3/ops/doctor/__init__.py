"""Would this sink run here? Everything that it will need is tried, and every answer is a finding: ok, warning or failed."""
