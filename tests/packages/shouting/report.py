"""A run's shards -> its report, whose page is the house's."""

from audit.judge.report import report_of_answers
from shouting.analyse import JUDGE
from shouting.audit import SHOUTING
from shouting.config import ShoutingThresholds
from shouting.vocabulary import RunVerdict

REPORT = report_of_answers(SHOUTING, JUDGE, RunVerdict, ShoutingThresholds)
report_runs, build_report, verdict_of = REPORT.of_runs, REPORT.build, REPORT.verdict_of
