"""The judge: pure functions from the evidence of an event to a finding for each promise."""

from coordinator_testing.certify.judge.findings import Finding, Outcome
from coordinator_testing.certify.judge.judgement import PROMISES, judge

__all__ = ["PROMISES", "Finding", "Outcome", "judge"]
