"""A run's shards -> its report, whose page is the house's."""

from audit.judge.report import report_of_answers
from audit.judging.thresholds import Thresholds
from shouting.analyse import JUDGE
from shouting.audit import SHOUTING
from shouting.vocabulary import RunVerdict

REPORT = report_of_answers(SHOUTING, JUDGE, RunVerdict, Thresholds)
