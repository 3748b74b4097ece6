"""The memory audit as the pipeline runs it."""

from __future__ import annotations

from audit.audits import Audit, Roles
from audit.memory.columns import SCHEMA, told
from audit.memory.config import design_of
from audit.memory.design import Arm
from audit.memory.present import present

MEMORY = Audit(
    name="memory",
    schema=SCHEMA,
    roles=Roles(baseline=(Arm.PUBLISHED, 0), treated=Arm.ORDER, arms=tuple(Arm)),
    design=design_of,
    present=present,
    told=told,
)
