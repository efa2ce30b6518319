"""Is kept machine code always that of the sources as they are now?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from kafka_s3.connect.records.compiling import source_digest

PROGRAM = "from {package}.outer import outer; print(outer(1), sum(outer.stats.cache_hits.values()))"
INNER = """
from kafka_s3.connect.records.compiling import compiled

@compiled("int64(int64)")
def inner(number):
    return number + {added}
"""
OUTER = """
from kafka_s3.connect.records.compiling import compiled
from {package}.between import FACTOR, inner

@compiled("int64(int64)")
def outer(number):
    return FACTOR * inner(number)
"""
PACKAGE = "kafka_s3.loops_of_a_test"


def written(folder: Path, *, added: int, factor: int = 10) -> None:
    """A package of loops: `outer` takes a function and a constant by way of another module."""
    folder.mkdir(exist_ok=True)
    (folder / "__init__.py").write_text("")
    (folder / "inner.py").write_text(INNER.format(added=added))
    (folder / "between.py").write_text(f"from {PACKAGE}.inner import inner\nFACTOR = {factor}\n")
    (folder / "outer.py").write_text(OUTER.format(package=PACKAGE))


def run(folder: Path) -> list[int]:
    """What `outer(1)` gives in a new process, and how often its code was there already."""
    program = f"import kafka_s3; kafka_s3.__path__.append({str(folder.parent)!r})\n{PROGRAM.format(package=PACKAGE)}"
    bundle = Path(__file__).parents[3] / "bundle"
    env = os.environ | {"PYTHONPATH": str(bundle), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return [int(number) for number in done.stdout.split()]


def test_a_loop_is_compiled_again_when_a_module_changes_that_it_inlines(tmp_path: Path) -> None:
    folder = tmp_path / "loops_of_a_test"
    written(folder, added=1)
    assert run(folder) == [20, 0]
    assert run(folder) == [20, 1], "the same sources: the kept code is used"
    written(folder, added=2)
    assert run(folder) == [30, 0], "an inlined function has changed"
    written(folder, added=2, factor=100)
    assert run(folder) == [300, 0], "a constant of another module has changed"


def test_a_module_s_digest_covers_what_its_loops_inline() -> None:
    import kafka_s3.connect.converters.avro_loops  # noqa: F401 - its source is looked up where it is loaded
    from kafka_s3.connect.records.compiling import _sources

    found = _sources("kafka_s3.connect.converters.avro_loops", {})
    assert {"kafka_s3.connect.records.loops", "kafka_s3.connect.records.compiling"} <= found.keys()
    assert source_digest("kafka_s3.connect.converters.avro_loops") != source_digest("kafka_s3.connect.records.loops")
