"""What does a person see while a sink works? Progress while it runs, then the bucket as a tree and totals that add up."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console, JustifyMethod, OverflowMethod
from rich.measure import Measurement
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.style import Style
from rich.table import Column, Table
from rich.text import Text
from rich.tree import Tree

from kafka_s3.model.protocols import Observer
from kafka_s3.model.text import printable

if TYPE_CHECKING:
    from kafka_s3.engine.log.fold import LogState
    from kafka_s3.model.protocols import RoundSummary, Start
    from kafka_s3.store.store import ObjectInfo

SHOWN_PER_FOLDER = 4
PIPE_WIDTH: Final = 200
UNBOUND: Final = 100_000


class TextConsole(Console):
    """A console to which every string is text, and one line, whoever wrote it: no markup, and nothing that a terminal would obey.

    What has a style of ours is `styled`.
    """

    def render_str(
        self,
        text: str,
        *,
        style: str | Style = "",
        justify: JustifyMethod | None = None,
        overflow: OverflowMethod | None = None,
        **_: Any,
    ) -> Text:
        """The text as it is, of a line, a title or a cell."""
        return Text(printable(text), style=style, justify=justify, overflow=overflow)


def console(*, stderr: bool = False) -> TextConsole:
    """Standard output, or the other one; wide where it is not a terminal, so that no cell is cut."""
    stream = sys.stderr if stderr else sys.stdout
    return TextConsole(width=None if stream.isatty() else PIPE_WIDTH, stderr=stderr)


def styled(*parts: str | tuple[str, str]) -> Text:
    """One line of texts, some with a style. None of them is markup, and a terminal obeys none."""
    pairs = [(part, "") if isinstance(part, str) else part for part in parts]
    return Text.assemble(*((printable(text), style) for text, style in pairs))


def show_line(out: Console, *parts: str | tuple[str, str], style: str | None = None) -> None:
    """A line that is not broken, of texts some of which have a style."""
    out.print(styled(*parts), style=style, soft_wrap=True)


def show_json(document: Any) -> None:
    """A document for programs, on standard output."""
    print(json.dumps(document, indent=2))


def new_table(title: str, *, left: Iterable[str], right: Iterable[str] = (), **options: Any) -> Table:
    """A table with these columns, texts first, then numbers; nothing in it is cut. `options` are Rich's."""
    table = Table(title=title or None, title_justify="left", **options)
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right", overflow="fold")
    return table


def show_table(out: Console, table: Table) -> None:
    """The table where no word of it has to be broken for the terminal, else a block of lines for each row."""
    for column in table.columns:
        column.no_wrap = _is_one_word(column)
    if Measurement.get(out, out.options.update(max_width=UNBOUND), table).minimum <= out.width:
        out.print(table)
        return
    if table.title:
        show_line(out, str(table.title), style="italic")
    names = [str(column.header) for column in table.columns]
    wide = max(map(len, names))
    for row in zip(*(column.cells for column in table.columns), strict=True):
        for at, (name, cell) in enumerate(zip(names, row, strict=True)):
            if name or cell:
                value = cell if isinstance(cell, Text) else styled(str(cell))
                out.print(styled("" if at == 0 else "  ", (f"{name:<{wide}}", "dim"), "  ") + value, soft_wrap=True)


def _is_one_word(column: Column) -> bool:
    """Whether each cell is, and no shorter than the header: others give way before such a word is broken."""
    cells = [cell.plain if isinstance(cell, Text) else printable(str(cell)) for cell in column.cells]
    return not any(" " in cell for cell in cells) and max(map(len, cells), default=0) >= len(str(column.header))


def progress_bar(console: Console) -> Progress:
    """Lines of progress, each with two texts of its own, `rate` and `left`."""
    return Progress(
        SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[rate]}", markup=False), TimeElapsedColumn(), TextColumn("{task.fields[left]}", markup=False),
        console=console,
    )  # fmt: skip


@dataclass
class ProgressObserver(Observer):
    """A line of `bar` over the records that were there at the start: records per second, files, lag, time that remains.

    `rate` is that of the records within the rounds: what comes before and between them is no part of it.
    """

    bar: Progress
    rate: float = 0.0
    _began: float = 0.0
    _backlog: int = 0
    _done: int = 0
    _read: int = 0
    _worked_ms: int = 0
    _files: int = 0
    _lag: str = "unknown"
    _task: TaskID = field(init=False)

    def __post_init__(self) -> None:
        """Takes a line of the bar."""
        self.moves_to(self.bar)

    def moves_to(self, bar: Progress) -> None:
        """Takes a line of another bar."""
        self.bar, self._task = bar, bar.add_task("starting", total=None, rate="", left="")

    def __enter__(self) -> ProgressObserver:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def started(self, start: Start) -> None:
        """The clock starts."""
        self._began, self._backlog = time.monotonic(), start.backlog
        self._done = self._read = self._worked_ms = self._files = 0
        self.bar.reset(self._task)
        self._lag = f"{start.backlog:,}"
        self.bar.update(self._task, total=start.backlog or None, description=printable(start.sink))

    def preparing(self, step: str) -> None:
        """Beside the spinner."""
        self.bar.update(self._task, description=printable(step))

    def reading(self, records: int, wanted: int) -> None:
        """The bar moves by what is read, before it is committed."""
        self._move(self._done + records)

    def round_done(self, done: RoundSummary) -> None:
        """The bar moves by what was committed."""
        self._done += done.totals.read
        self._files += done.totals.files
        self._worked_ms += done.ended_ms - done.started_ms
        self._read += done.read
        self.rate = self._read / max(self._worked_ms / 1000, 0.001)
        self._lag = f"{sum(done.lag.values()):,}"
        self._move(self._done)

    def _move(self, records: int) -> None:
        passed = max(time.monotonic() - self._began, 0.001)
        rate = self.rate or records / passed
        left = max(self._backlog - records, 0) / rate if rate else 0
        text = f"{rate:,.0f} records/s {self._files} files lag {self._lag}"
        self.bar.update(self._task, completed=records, rate=text, left=f"{left:,.0f} s left" if left >= 1 else "")

    def warned(self, text: str) -> None:
        """Shown above the bar."""
        show_line(self.bar.console, ("trying again:", "yellow"), f" {text}")

    def follower_warned(self, text: str) -> None:
        """Show the text above the bar."""
        show_line(self.bar.console, ("warning:", "yellow"), f" {text}")

    def recovered(self, after_ms: int) -> None:
        """Shown above the bar."""
        show_line(self.bar.console, ("recovered", "green"), f" after {after_ms / 1000:.0f} s")

    def stopped(self) -> None:
        """Beside the spinner."""
        self.bar.update(self._task, left="stopped")

    def decided(self, choice: str, reason: str) -> None:
        """Shown above the bar."""
        show_line(self.bar.console, f"{choice}: {reason}")


def bucket_tree(bucket: str, objects: Iterable[ObjectInfo]) -> Tree:
    """The objects as a tree; long folders are cut, with the number left out."""
    root = Tree(styled((f"s3://{bucket}", "bold")))
    folders: dict[str, Tree] = {"": root}
    files: dict[str, list[ObjectInfo]] = {}
    for info in objects:
        folder, _, _ = info.key.rpartition("/")
        files.setdefault(folder, []).append(info)
    for folder in sorted(files):
        branch = _branch(folder, folders)
        for info in files[folder][:SHOWN_PER_FOLDER]:
            branch.add(styled(f"{info.key.rpartition('/')[2]} ", (size_text(info.size), "dim")))
        if len(files[folder]) > SHOWN_PER_FOLDER:
            branch.add(styled((f"... and {len(files[folder]) - SHOWN_PER_FOLDER} more", "dim")))
    return root


def totals_table(state: LogState) -> Table:
    """The log's totals: what was read is what was written, dead-lettered and skipped."""
    totals = state.totals
    table = new_table("Totals of the commit log", left=["records"], right=[""])
    for name, number in (
        ("read from Kafka", totals.read),
        ("written to objects", totals.written),
        ("dead letters", totals.dead_letters),
        ("skipped by a rule", totals.skipped),
    ):
        table.add_row(name, f"{number:,}")
    return table


def totals_verdict(state: LogState) -> Text:
    """Whether they add up, and what was made of them."""
    totals = state.totals
    adds_up = totals.read == totals.written + totals.dead_letters + totals.skipped
    verdict = ("read = written + dead letters + skipped", "green") if adds_up else ("the totals do not add up", "red")
    return styled(verdict, f"; {totals.files:,} files, {size_text(totals.bytes)}")


def size_text(size: float) -> str:
    """A size for people."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def _branch(folder: str, folders: dict[str, Tree]) -> Tree:
    if folder not in folders:
        parent, _, name = folder.rpartition("/")
        folders[folder] = _branch(parent, folders).add(styled((f"{name}/", "blue")))
    return folders[folder]
