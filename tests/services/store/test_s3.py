"""How S3Store lives in processes: pickles, forks, closing."""

from __future__ import annotations

import os
import pickle

import pytest

from kafka_s3.store.s3 import S3Store


def test_a_pickle_holds_the_options_and_no_client(s3: S3Store) -> None:
    s3.put("a", b"body")
    copy = pickle.loads(pickle.dumps(s3))

    assert copy.options == s3.options
    assert copy.get("a") == b"body"
    copy.close()


def test_a_forked_child_makes_its_own_client(s3: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    s3.put("a", b"body")
    parents = s3._connected()
    assert s3._connected() is parents

    monkeypatch.setattr(os, "getpid", lambda: -2)
    assert s3._connected() is not parents
    s3.close()
    parents.close()


def test_a_closed_store_opens_again(s3: S3Store) -> None:
    s3.put("a", b"body")
    s3.close()

    assert s3.get("a") == b"body"


def test_the_text_form_shows_the_bucket_only(s3: S3Store, bucket: str) -> None:
    assert repr(s3) == f"S3Store(s3://{bucket})"
