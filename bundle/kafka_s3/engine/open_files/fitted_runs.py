"""In which form do records go into the open files? By directory, and in the schema of the directory's file (SEMANTICS A6)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import Longs
from kafka_s3.connect.schemas.compatibility import SchemaDecision
from kafka_s3.connect.schemas.connect import ConnectSchema
from kafka_s3.engine.open_files.interleaved import Interleaved, joined
from kafka_s3.engine.open_files.lines import LinesByDirectory
from kafka_s3.engine.open_files.open_files import OpenFile, OpenFiles
from kafka_s3.engine.open_files.schema_changes import SchemaRules, kept, projected


@dataclass(slots=True)
class FittedRuns:
    """Runs by directory, in the schemas of the open files; and the places of the records that have no such form, with the reason.

    Or, in place of runs, lines of many directories, which go into any file.
    """

    runs: list[tuple[str, Run]] = field(default_factory=list)
    bad: list[tuple[int, str]] = field(default_factory=list)
    lines: LinesByDirectory | None = None


def fitted_runs(
    part: Interleaved, start: int, stop: int, *, open_files: OpenFiles, rules: SchemaRules, shared: bool = False
) -> FittedRuns:
    """Records `[start, stop)`, none of which rolls a file; `shared` as for `Interleaved.runs_by_directory`.

    Version 1 has the open file, and records come as v1 v2 v1, of which v2 is projected: one run of version 1 with three records, in the
    order of their offsets. A field of v2 that has no value in version 1 makes that record bad, and the run has two.
    """
    directories = part.runs_by_directory(start, stop, shared=shared)
    if len(part.runs) == 1 and part.runs[0].schema is None:  # nothing to project, nothing to refuse
        return FittedRuns([(name, run) for name, [(run, _)] in directories])
    found = FittedRuns()
    for name, runs in directories:
        parts: list[tuple[Run, Longs]] = []
        for run, own in runs:
            run, bad = _fitted(run, open_files.files.get(name), rules, others=len(runs) - 1)
            found.bad += [(int(own[row]), text) for row, text in bad]
            parts.append((run, np.delete(own, [row for row, _ in bad]) if bad else own))
        found.runs += [(name, run) for run in joined(parts)]
    found.bad.sort()
    return found


def _fitted(run: Run, file: OpenFile | None, rules: SchemaRules, *, others: int) -> tuple[Run, list[tuple[int, str]]]:
    """The run as its file takes it, and the rows that it does not take; `others` are runs that come to the file with it."""
    if file is None:
        return run, []
    decision, values = file.decision(run, rules), file.values
    if decision is SchemaDecision.REJECT:
        return run.slice(0, 0), [(row, rules.refusal) for row in range(len(run))]
    if values is not None and (decision is SchemaDecision.PROJECT or (values.encoder.unifies and others)):
        return _projected(run, values.schema)
    return run, []


def _projected(run: Run, schema: ConnectSchema | None) -> tuple[Run, list[tuple[int, str]]]:
    """The run in a file's schema, and its rows that cannot be projected."""
    if run.schema is None or schema is None or run.schema is schema:
        return run, []
    values, bad = projected(run.values, run.schema, schema)
    run = run.take(kept(len(run), bad)) if bad else run
    return replace(run, values=values, schema=schema), bad
