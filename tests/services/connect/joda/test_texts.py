"""A process of its own has asked for no other language before."""

from __future__ import annotations

import subprocess
import sys

from kafka_s3.connect.joda.pattern import texts


def test_the_texts_of_a_language_do_not_depend_on_what_was_asked_before() -> None:
    code = "from kafka_s3.connect.joda.pattern import texts; [texts(one) for one in ('root', 'nds', 'yi', 'ii')]; print(ascii(texts('ja')))"
    reported = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert reported.strip() == ascii(texts("ja"))
