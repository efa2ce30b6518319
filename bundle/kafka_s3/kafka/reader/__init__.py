"""How do tasks read Kafka by themselves? Offset ranges in, Arrow batches out; librdkafka does the rest.

::

    reader.RangeReader(servers, properties, scope).read_ranges([OffsetRange(...)])  each range with its batches
    reach.why_out_of_reach(servers, properties, topic_partition)                    None, or why that does not work in this process

Below it: `messages` (columns, compiled loops, whether the library is the expected one), `consumer` (librdkafka's handle, kept by the
process), `settings` (Java's properties in its words, how much is fetched ahead), `library` (its functions).
"""
