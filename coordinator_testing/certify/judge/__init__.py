"""The judge: pure functions from the evidence of an event to a finding for each promise."""

from coordinator_testing.certify.judge.findings import Finding, Outcome
from coordinator_testing.certify.judge.judgement import PROMISES, SHARE_PROMISES, judge, promises_of

__all__ = ["PROMISES", "SHARE_PROMISES", "Finding", "Outcome", "judge", "promises_of"]
