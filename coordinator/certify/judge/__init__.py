"""The judge: pure functions from the evidence of an event to a finding for each promise."""

from coordinator.certify.judge.findings import Finding, Outcome
from coordinator.certify.judge.judgement import PROMISES, judge

__all__ = ["PROMISES", "Finding", "Outcome", "judge"]
