"""The router-worker sweep (song2026): routers rewrite the question, a worker answers from their messages alone.

design   arms, draws, router sets        config   what can be set, validated
present  router and worker prompts       columns  its own columns of a row
audit    the record that the pipeline runs

`python -m audit.sweep model=llama3_70b r=1..9`
"""
