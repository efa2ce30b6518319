"""How do users test their sinks and what they build on the objects? A pytest plugin: services, and sinks run over given records.

`plugin` has the fixtures, which pytest finds by itself where the wheel is installed; nothing is started before a test asks for it.
It needs the extra `testing`.
"""
