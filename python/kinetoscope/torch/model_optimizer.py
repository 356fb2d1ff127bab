"""ModelOptimizer: what the last recording suggests to change. Changes nothing itself."""


class ModelOptimizer:
    """Collects the fixes of the findings of a report (docs/rules)."""

    def __init__(self, config=None):
        self.config = config
        self._suggested = []

    def suggest(self, report):
        """Takes the findings of a kinetoscope.Report; {} when optimizations are switched off."""
        is_on = self.config is None or self.config.enable_optimizations
        self._suggested = [_suggestion(finding) for finding in report.findings] if is_on else []
        return self.get_optimization_summary()

    def forget(self):
        """Suggests nothing until it is given a report again."""
        self._suggested = []

    def get_optimization_summary(self):
        """optimizations_applied: names, and total_optimizations, their number: nothing is applied
        by itself. suggested: [{id, title, fix, code, saving_ns_per_step}], from the findings."""
        return {
            "optimizations_applied": [],
            "total_optimizations": 0,
            "suggested": list(self._suggested),
        }


def _suggestion(finding):
    fix = finding.get("fix") or {}
    return {
        "id": finding["id"],
        "title": finding["title"],
        "fix": fix.get("text"),
        "code": fix.get("code"),
        "saving_ns_per_step": finding.get("saving_ns_per_step"),
    }
