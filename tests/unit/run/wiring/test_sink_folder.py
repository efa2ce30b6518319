"""Where sinks keep their state, and how patiently it is looked at."""

from __future__ import annotations

import pytest

from kafka_s3.run.wiring.bucket import SinkFolder, folder_of, named_folder, store_options
from kafka_s3.store.options import ANSWER_S
from kafka_s3.store.s3 import S3Store
from tests.support.memory_world import settings_of

SETTINGS = settings_of({"flush.size": "1", "s3.part.retries": "5", "store.url": "http://127.0.0.1:9"})


@pytest.mark.parametrize("folder", [folder_of(SETTINGS), named_folder("lake")], ids=["of a configuration", "by name"])
def test_a_look_at_the_state_gives_up_soon_however_patient_the_sink_is(folder: SinkFolder) -> None:
    assert isinstance(folder.store, S3Store)
    options = folder.store.options
    longest_s = options.part_retries * max(options.connect_timeout_s, options.read_timeout_s)
    assert (options.part_retries, longest_s) == (2, 2 * ANSWER_S)
    assert store_options(SETTINGS).part_retries == 5
