"""Dead letters of any content."""

from __future__ import annotations

from hypothesis import strategies as st

from kafka_s3.model.dead_letters import DeadLetter

BYTES = st.none() | st.binary(max_size=20)

LETTERS = st.builds(
    DeadLetter, topic=st.text(max_size=5), partition=st.integers(0, 9), offset=st.integers(0, 2**63), timestamp=st.none() | st.integers(0),
    key=BYTES, value=BYTES, headers=st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=3).map(tuple), stage=st.text(max_size=5),
    component=st.text(max_size=5), exception=st.text(max_size=5), message=st.text(),
)  # fmt: skip
