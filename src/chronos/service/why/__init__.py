"""Explanations of runs: why a job ran or did not, step by step.

Sentences about schedules belong in ``core.schedule``; reasons of outcomes belong in ``core.reasons``.
"""

from chronos.service.why.explanation import WhyService
from chronos.service.why.steps import WhyStep, WhyVerdict

__all__ = ["WhyService", "WhyStep", "WhyVerdict"]
