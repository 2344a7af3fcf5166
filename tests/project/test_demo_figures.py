"""The demo's figures: sums over the labels that the status line does not show."""

from project.demo.figures import Figures, parse

EXPOSITION = """\
# HELP drover_jobs_runs_total Finished runs.
# TYPE drover_jobs_runs_total counter
drover_jobs_runs_total{job="import-products",state="succeeded"} 3.0
drover_jobs_runs_total{job="flush-positions",state="succeeded"} 2.0
drover_jobs_runs_total{job="import-products",state="failed"} 1.0
drover_jobs_runs_created{job="import-products",state="failed"} 1.7e+09
# HELP drover_tracking_fixes_total Fixes.
# TYPE drover_tracking_fixes_total counter
drover_tracking_fixes_total{door="ws",outcome="accepted"} 10.0
drover_tracking_fixes_total{door="osmand",outcome="accepted"} 5.0
# HELP drover_tracking_watchers Watchers.
# TYPE drover_tracking_watchers gauge
drover_tracking_watchers 2.0
"""


def test_outcomes_are_summed_over_jobs_and_doors() -> None:
    figures = parse(EXPOSITION)
    assert figures.runs == {"succeeded": 5, "failed": 1}
    assert figures.fixes == {"accepted": 15}
    assert figures.watchers == 2


def test_a_path_on_which_nothing_happened_is_named() -> None:
    assert parse(EXPOSITION).silent_paths == ["products", "streaming"]
    assert (
        Figures(
            products={"created": 1}, events={"done": 1}, fixes={"accepted": 1}
        ).silent_paths
        == []
    )
