"""The router-worker sweep as the pipeline runs it."""

from __future__ import annotations

from audit.audits import Audit, Roles
from audit.sweep.columns import SCHEMA
from audit.sweep.config import TEMPLATES, design_of, worker_of
from audit.sweep.design import Arm
from audit.sweep.present import ROUTER, present, router_requests

SWEEP = Audit(
    name="sweep",
    schema=SCHEMA,
    roles=Roles(baseline=(Arm.FORWARD_FULL, 1), treated=Arm.NOISY_REWRITE, arms=tuple(Arm)),
    design=design_of,
    present=present,
    prepare=router_requests,
    prepare_role=ROUTER,
    answering=worker_of,
    templates=TEMPLATES,
)
