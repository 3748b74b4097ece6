"""Print the schema of verdict.json, which ships as audit/judging/verdict.schema.json.

python tests/golden/verdict_schema.py > audit/judging/verdict.schema.json
"""

import json

from audit.judging.together import schema

print(json.dumps(schema(), indent=1))
