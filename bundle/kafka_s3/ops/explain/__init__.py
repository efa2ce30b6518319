"""What became of a record, and where does an object come from? What the log says of one offset or one key, with the rules behind it."""
