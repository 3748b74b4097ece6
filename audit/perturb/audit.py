"""The semantic-perturbation audit as the pipeline runs it."""

import pyarrow as pa

from audit.audits import Audit, Roles
from audit.perturb.config import design_of
from audit.perturb.design import Arm
from audit.perturb.present import present
from audit.shards.schema import row_schema

SCHEMA = row_schema(
    "perturb",
    1,
    own=(
        ("variant_id", pa.string(), "<question_id>#<number> in the library; null for the original, or where not asked"),
        ("wording", pa.string(), "the question in the words that were asked; hostile text where a model wrote them"),
        ("distance", pa.float64(), "cosine distance from the original, of the library, 0-2; null for the original"),
        ("asked", pa.bool_(), "false: the library has no such variant of the question, so nothing was sent or scored"),
    ),
)  # fmt: skip


PERTURB = Audit(
    name="perturb",
    schema=SCHEMA,
    roles=Roles(baseline=(Arm.ORIGINAL, 0), treated=Arm.VARIANT, arms=tuple(Arm)),
    design=design_of,
    present=present,
)
