"""An object that had to be made again is what its entry says of it, though its bytes are others than those that were lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_s3.engine.log.entry import EntryKind
from kafka_s3.engine.log.remade import agree_on_remade
from kafka_s3.model.files import Upload
from kafka_s3.store.store import etag_of
from kafka_s3_testing.faults import Fault, Moment, failure
from tests.support.memory_world import World

KEPT = {"flush.size": "9", "s3.compression.type": "gzip", "tail.state.enable": "true", "tail.read.records": "1"}


def in_pieces(*plan: Fault, loses: bool = False) -> World:
    """A file that was kept open twice and is committed with the next cycle; `loses`: its upload is gone then."""
    world = World(KEPT)

    def lose(key: str) -> None:
        for upload_id, upload in world.store.uploads.items():
            world.store.abort_upload(upload.key, upload_id)

    gone = [
        Fault("put_new", lose, Moment.AFTER, matches=lambda key: key.endswith("/commits/00000000000000000002.json"))
    ]
    world.start([*(gone if loses else []), *plan])
    for first in (0, 3, 6):
        world.add(range(first, first + 3))
        if first < 6:
            world.sink.poll_and_commit()
    return world


def assert_as_counted(world: World) -> None:
    (entry,) = [entry for entry in world.entries() if entry.kind is EntryKind.DATA]
    (file,) = entry.files
    found = world.store.head(file.key)
    assert found is not None
    assert (found.size, found.etag) == (file.bytes, etag_of(file.upload.parts))
    assert entry.totals.bytes == file.bytes == world.log().load().totals.bytes
    assert world.numbers() == {file.key: list(range(9))}


def test_the_entry_counts_what_was_made_again() -> None:
    whole, broken = in_pieces(), in_pieces(loses=True)
    assert whole.sink.poll_and_commit()
    assert broken.sink.poll_and_commit()

    assert whole.objects() == broken.objects()
    assert whole.entries()[-1].totals.bytes != broken.entries()[-1].totals.bytes
    assert_as_counted(whole)
    assert_as_counted(broken)
    assert broken.sink.log.state == broken.log().load()


@pytest.mark.parametrize(
    ("verb", "where"), [("put_new", "/again/"), ("put", "/commits/"), ("complete_upload", "topics/")]
)
def test_a_start_ends_what_was_begun(verb: str, where: str) -> None:
    world = in_pieces(failure(verb, None, matches=lambda key: where in key), loses=True)
    assert not world.sink.poll_and_commit()
    world.start()
    assert_as_counted(world)


def test_of_two_drivers_the_one_that_was_first_counts() -> None:
    world = in_pieces()
    world.sink.poll_and_commit()
    entry, paths, store = world.entries()[-1], world.log().paths, world.store
    (file,) = entry.files
    ours, theirs = (replace(file, upload=Upload(file.key, store.create_upload(file.key), ("e",), 1)) for _ in range(2))
    assert agree_on_remade(store, paths, entry, made=[theirs]) == [theirs]
    assert agree_on_remade(store, paths, entry, made=[ours]) == [theirs]
    assert list(store.uploads) == [theirs.upload.id]


@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_an_object_made_again_whose_completion_fails_appears_with_the_next_try(compression: str) -> None:
    """Without compression its bytes are those of before, so that no entry names its upload: it ends with the try."""
    world = World(KEPT | {"s3.compression.type": compression})
    world.start([failure("complete_upload", 2)])
    for first in (0, 3, 6):
        world.add(range(first, first + 3))
        if first < 6:
            world.sink.poll_and_commit()
    for upload_id, upload in list(world.store.uploads.items()):
        world.store.abort_upload(upload.key, upload_id)
    while not world.numbers():
        world.sink.poll_and_commit()
    assert_as_counted(world)
    assert not world.store.uploads
