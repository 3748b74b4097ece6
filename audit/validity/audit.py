"""The construct-validity audit as the pipeline runs it."""

from audit.audits import Audit, Roles
from audit.validity.columns import SCHEMA
from audit.validity.config import design_of
from audit.validity.design import Arm
from audit.validity.present import present, read

VALIDITY = Audit(
    name="validity",
    schema=SCHEMA,
    roles=Roles(baseline=(Arm.ORIGINAL, 0), treated=Arm.ATTRIBUTE, arms=tuple(Arm)),
    design=design_of,
    present=present,
    read=read,
)
