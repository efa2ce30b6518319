"""What became of a record, and where does an object come from? The log's own words on one offset or one key, with the rules behind them.

`accounts` finds what entries say, `rules` says it in the words of the configuration, `verdict` asks the pipeline about a record that is
still in Kafka; `offset` and `key` put the answer together, `answer` is its form.
"""
