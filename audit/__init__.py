"""Is a benchmark score ability, or memory of the exam? Audits with measured error rates, on one data flow.

    question -> presentations -> engine -> answer -> score -> Arrow shard -> statistics -> verdict -> report

Shared rooms, which know no audit:
    records      the one vocabulary               errors    the exception tree
    audits       what an audit is: a record       config    what can be set of any audit
    resolve      names -> pinned things, no Ray   benchmarks published rows -> questions
    prompting    templates and filling (pure)     scoring   text or logprobs -> answer (pure)
    engines      vLLM, endpoints, a script        runtime   the only place with ray
    shards       rows, exactly once, manifest     summary   accuracy per setting
    statistics   arrays -> result objects (pure)  verdict   gates, decision, self-test (pure)
    report       tables, figures, one HTML page

Audits, one folder each: sweep (router-worker). plant teaches a model and tries all audits on it.

Commands (python -m audit.<name>): sweep, plan, report, gate, reanalyze, calibrate.
"""
