"""The semantic-perturbation audit as the pipeline runs it."""

from __future__ import annotations

from audit.audits import Audit, Roles
from audit.perturb.columns import SCHEMA
from audit.perturb.config import design_of
from audit.perturb.design import Arm
from audit.perturb.present import present

PERTURB = Audit(
    name="perturb",
    schema=SCHEMA,
    roles=Roles(baseline=(Arm.ORIGINAL, 0), treated=Arm.VARIANT, arms=tuple(Arm)),
    design=design_of,
    present=present,
)
