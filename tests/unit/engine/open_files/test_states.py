"""A state of open files is whole or of no use, in memory as on local disk, and says what is different where it does not hold."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.engine.open_files import states
from kafka_s3.engine.open_files.spill import Spilled, SpillFile
from kafka_s3.engine.open_files.states import (
    OpenFileStates,
    StateBytes,
    StateContent,
    StateUnusable,
    check_state,
    in_memory,
    opened_state,
)
from kafka_s3.engine.open_files.uploads import FileUpload
from kafka_s3.model.errors import ObjectMissing
from kafka_s3.model.tasks import OpenState
from kafka_s3.objects.format import CannotPause
from kafka_s3.store.memory import MemoryStore

STATE = {"identity": "this configuration", "table": "two columns", "start": 4}


@pytest.fixture(params=["in memory", "on local disk"], autouse=True)
def _place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "on local disk":
        monkeypatch.setattr(states, "IN_MEMORY", 0)
        monkeypatch.setattr(states, "FETCHED_BYTES", 7)


def put(store: MemoryStore, document: dict[str, Any], content: StateBytes) -> OpenState:
    made = StateContent(document, content)
    store.put("state", made)
    assert len(made) == len(store.get("state"))
    return OpenState("state", len(made), 1, 0, 0)


@pytest.mark.parametrize(
    ("name", "reported"),
    [("identity", "configuration or version"), ("table", "schema of the table"), ("start", "start")],
)
def test_what_is_different_is_named(name: str, reported: str) -> None:
    check_state(STATE, STATE)
    with pytest.raises(StateUnusable, match=f"it is of another {reported}"):
        check_state(STATE, {**STATE, name: "other"})


JSON = st.recursive(
    st.binary(max_size=30) | st.integers() | st.text(max_size=5) | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
def test_what_is_paused_is_read_back(tmp_path_factory: pytest.TempPathFactory, paused: Any) -> None:
    folder, store = tmp_path_factory.mktemp("task"), MemoryStore()
    content = StateBytes(folder)
    state = put(store, {"paused": content.placed(paused)}, content)
    with opened_state(store, state, folder) as document:
        assert in_memory(document["paused"]) == paused


def test_an_upload_goes_on_from_local_disk_where_its_bytes_wait_already(tmp_path: Path) -> None:
    store, content = MemoryStore(), StateBytes(tmp_path)
    upload, resumed = FileUpload(store, "key", part_size=100), list[FileUpload]()
    upload.add(b"on disk, ")
    upload.spill(SpillFile(tmp_path))
    upload.add(b"in memory, ")
    state = put(store, {"upload": upload.pause(content)}, content)
    upload.abort()

    with opened_state(store, state, tmp_path) as document:
        waits_on_disk = isinstance(document["upload"]["waiting"], Spilled)
        resumed.append(FileUpload.resumed(store, document["upload"], part_size=100))
    assert waits_on_disk == (resumed[0].in_memory() == 0) == (states.IN_MEMORY == 0)
    resumed[0].add(b"new")
    store.complete_upload(resumed[0].finish())
    assert store.get("key") == b"on disk, in memory, new"
    assert not [file for file in tmp_path.iterdir() if file.stat().st_size > len(b"in memory, ")]


@pytest.mark.parametrize("damage", ["cut", "longer", "another byte", "nothing"])
def test_a_state_that_is_damaged_is_of_no_use(tmp_path: Path, damage: str) -> None:
    store, content = MemoryStore(), StateBytes(tmp_path)
    state = put(store, {"text": content.placed(b"x" * 100)}, content)
    data = bytearray(store.get("state"))
    data[90] ^= 1
    damaged = {"cut": data[:-1], "longer": data + b"x", "another byte": data, "nothing": b""}[damage]
    store.put("state", bytes(damaged))
    with pytest.raises(StateUnusable, match=r"damaged|not a state"), opened_state(store, state, tmp_path):
        pass
    store.delete("state")
    with pytest.raises(ObjectMissing, match="state"), opened_state(store, state, tmp_path):
        pass


def test_a_state_of_an_earlier_version_is_not_read_and_its_uploads_can_be_ended(tmp_path: Path) -> None:
    store = MemoryStore()
    begun = store.create_upload("key")
    text = json.dumps({"format": 1, "uploads": [["key", begun]], "begun": [["key", begun]]}).encode()
    whole = b"KS3OPEN1" + len(text).to_bytes(4, "big") + text
    store.put("state", whole + hashlib.sha256(whole).digest())
    state = OpenState("state", len(whole) + 32, 1, 0, 0)

    with pytest.raises(StateUnusable, match="another version"), opened_state(store, state, tmp_path):
        pass
    OpenFileStates(store, StatePaths("state", "sink")).remove_with_uploads("state")
    assert (store.uploads, store.objects) == ({}, {})


def test_too_much_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "MOST_BYTES", 100)
    content = StateBytes(tmp_path)
    content.keep([b"x" * 60])
    with pytest.raises(CannotPause, match="open files hold 120 bytes, more than 100"):
        content.keep([b"x" * 60])
    with pytest.raises(CannotPause, match="more than 100"):
        StateContent({"text": "x" * 100}, StateBytes(tmp_path))
