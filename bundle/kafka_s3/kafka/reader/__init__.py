"""How do tasks read Kafka by themselves? Offset ranges in, Arrow batches out; librdkafka does the rest.

::

    reader.Reader(servers, properties, part).read([OffsetRange(...)])   each range with its batches
    reach.why_out_of_reach(servers, properties, topic_partition)        None, or why that does not work in this process

Below it: `pace` (how much is fetched ahead), `batches` (the columns), `gather` (compiled loops), `consumer` (librdkafka's handle, kept by
the process), `library` (its functions), `layout` (whether it is the expected one), `settings` (Java's properties in its words).
"""
