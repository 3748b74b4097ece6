"""Print the schema of verdict.json, which ships as audit/verdict/verdict.schema.json.

python tests/golden/verdict_schema.py > audit/verdict/verdict.schema.json
"""

import json

from audit.verdict.together import schema

print(json.dumps(schema(), indent=1))
