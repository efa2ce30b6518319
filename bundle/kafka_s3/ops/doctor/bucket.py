"""Is it the right bucket, and does nothing in it work against the sink? Region, clock, lifecycle rules, versioning: read, not changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kafka_s3.model.errors import StorageError
from kafka_s3.ops.doctor.finding import Area, CheckResult
from kafka_s3.store.bucket import BucketAnswer, BucketFacts, LifecycleRule
from kafka_s3.store.options import StoreOptions

AREA: Final = Area("bucket")
SKEW_TO_MENTION_MS: Final = 5_000
SKEW_REFUSED_MS: Final = 15 * 60_000
"""From here on S3 refuses every signature."""
LEAST_ABORT_DAYS: Final = 2
ADVISED_ABORT_DAYS: Final = 7
AS_IN: Final = "a committed file may wait for its completion while the sink is down"


def check_answer(answer: BucketAnswer, options: StoreOptions) -> Iterator[CheckResult]:
    """Whether the bucket can be reached where it is said to be, and what its clock says, where it told."""
    yield _reached(answer, options)
    if answer.skew_ms is not None:
        yield _clock(answer.skew_ms)


def check_rules(facts: BucketFacts, *, state_root: str, prefixes: Sequence[str]) -> Iterator[CheckResult]:
    """Lifecycle rules and versioning of a bucket that can be reached. `prefixes` are those of every object of the sink."""
    yield from _lifecycle(facts, state_root, prefixes)
    yield _versioning(facts)


def _reached(answer: BucketAnswer, options: StoreOptions) -> CheckResult:
    tried = f"s3://{options.bucket}"
    if answer.refusal is not None:
        return AREA.failed(tried, str(answer.refusal))
    if answer.region and answer.region != options.region:
        detail = (
            f"is in region {answer.region}, not in {options.region}: every request may be sent twice, or be refused."
        )
        return AREA.warning(f"region of {tried}", detail, f"Set s3.region={answer.region}.")
    return AREA.ok(tried, f"answers, region {answer.region or 'not told'}")


def _clock(skew_ms: int) -> CheckResult:
    tried = "clock of this machine against the bucket's"
    detail = f"{abs(skew_ms) / 1000:.0f} s {'behind' if skew_ms > 0 else 'ahead'}"
    remedy = "Set this machine's clock (NTP)."
    if abs(skew_ms) > SKEW_REFUSED_MS:
        return AREA.failed(tried, f"{detail}: S3 refuses requests beyond 15 minutes.", remedy)
    if abs(skew_ms) > SKEW_TO_MENTION_MS:
        return AREA.warning(tried, f"{detail}: rotation by schedule and upload ages go by it.", remedy)
    return AREA.ok(tried, "within 5 s")


def _lifecycle(facts: BucketFacts, state_root: str, prefixes: Sequence[str]) -> Iterator[CheckResult]:
    try:
        rules = facts.lifecycle()
    except StorageError as error:
        remedy = (
            "Grant s3:GetLifecycleConfiguration to have the rules checked, or see that none removes incomplete uploads within "
            f"{LEAST_ABORT_DAYS} days or objects below {state_root}."
        )
        yield AREA.warning("lifecycle rules", str(error), remedy)
        return
    yield _incomplete_uploads(rules, prefixes)
    yield from (_state_rule(rule, state_root) for rule in rules if _removes(rule) and rule.meets(state_root))
    if not any(_removes(rule) and rule.meets(state_root) for rule in rules):
        yield AREA.ok(f"lifecycle of {state_root}", "no rule removes or moves the commit log")


def _removes(rule: LifecycleRule) -> bool:
    return (rule.expires or rule.transitions) and not rule.tagged  # the sink's state has no tags


def _state_rule(rule: LifecycleRule, state_root: str) -> CheckResult:
    done = "expires" if rule.expires else "moves"
    where = f"objects below {rule.prefix!r}" if rule.prefix else "all objects"
    detail = f"rule {rule.name!r} {done} {where}, and so the commit log: without it the sink writes everything again."
    return AREA.failed(
        f"lifecycle of {state_root}",
        detail,
        "Give the rule a prefix of the data only, or set state.prefix to another folder.",
    )


def _incomplete_uploads(rules: Sequence[LifecycleRule], prefixes: Sequence[str]) -> CheckResult:
    tried = "lifecycle of incomplete uploads"
    acting = [rule for rule in rules if rule.abort_days is not None and any(map(rule.meets, prefixes))]
    if not acting:
        advice = f"A rule that aborts them after {ADVISED_ABORT_DAYS} days or more saves the storage; kafka-s3 sweep does it by hand."
        return AREA.ok(tried, "no rule aborts those that crashed tasks leave.", advice)
    shortest = min(acting, key=lambda rule: rule.abort_days or 0)
    detail = f"rule {shortest.name!r} aborts them after {shortest.abort_days} days"
    if (shortest.abort_days or 0) < LEAST_ABORT_DAYS:
        return AREA.warning(tried, f"{detail}: {AS_IN}.", f"Make it {ADVISED_ABORT_DAYS} days or more.")
    return AREA.ok(tried, detail)


def _versioning(facts: BucketFacts) -> CheckResult:
    try:
        state = facts.versioning()
    except StorageError as error:
        return AREA.ok("versioning", f"not told: {error}", "It makes no difference to the sink.")
    if state == "Enabled":
        advice = "Old versions of state objects stay; a rule for noncurrent versions removes them."
        return AREA.ok("versioning", "on.", advice)
    return AREA.ok("versioning", "suspended" if state else "off")
