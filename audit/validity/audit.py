"""The construct-validity audit as the pipeline runs it: its own columns beside the shared ones.

The canonical response of a row is `option_order[answer]`: the published position of the option that was chosen.
"""

import pyarrow as pa

from audit.audits import Audit, Roles
from audit.shards.schema import row_schema
from audit.validity.config import design_of
from audit.validity.design import Arm
from audit.validity.present import present, read

SCHEMA = row_schema(
    "validity",
    1,
    own=(
        ("edit", pa.string(), "name of the edit; null for the original, or where the item has no such edit"),
        ("contract", pa.string(), "what the edit should do to the response: invariant or directional; null: none"),
        ("context", pa.string(), "the benchmark's condition (BBQ: ambig, disambig; ...) by which cells are split"),
        ("asked", pa.bool_(), "false: the item has no such edit, so nothing was sent or scored"),
        ("edited", pa.string(), "the item's own text as asked, without the scorer's prompt; hostile text"),
        ("option_order", pa.list_(pa.int16()), "published position of each option, in the order shown"),
        ("key_before", pa.int16(), "canonical key of the original"),
        ("key_after", pa.int16(), "canonical key under the edit; -2 - k: every response except k fits"),
        ("scorer", pa.string(), "the reference scorer that asked and read"),
        ("unread_why", pa.string(), "why no answer was read: tied, not finite, no mass, ...; empty where one was"),
        ("label_mass", pa.float64(), "probability mass on the scored labels, where the scorer tells it"),
    ),
    level_doc="which edit of the family; 0 for the original",
)  # fmt: skip


VALIDITY = Audit(
    name="validity",
    schema=SCHEMA,
    roles=Roles(baseline=(Arm.ORIGINAL, 0), treated=Arm.ATTRIBUTE, arms=tuple(Arm)),
    design=design_of,
    present=present,
    read=read,
)
