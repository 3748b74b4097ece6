"""Is a benchmark score ability, or memory of the exam? Audits with measured error rates, on one data flow.

    question -> presentations -> engine -> answer -> score -> Arrow shard -> statistics -> verdict -> report

Shared rooms, which know no audit:
    records      the one vocabulary               errors    the exception tree
    audits       what an audit is: a record       config    what can be set of any audit
    resolve      names -> pinned things, no Ray   benchmarks published rows -> questions
    prompting    templates and filling (pure)     scoring   text or logprobs -> answer (pure)
    engines      vLLM, endpoints, a script        runtime   the only place with ray
    shards       rows, exactly once, manifest     summary   accuracy per setting
    statistics   arrays -> result objects (pure)  verdict   what every verdict is made of (pure)
    report       the page's shell, charts       governance decisions, signatures, evidence packs

Audits, one folder each, with the same file names in each: sweep (router-worker), perturb (rewordings; their libraries
are built in variants). A command finds an audit by its name: `audits.part_of`.

Commands (python -m audit.<name>): sweep, perturb, variants, plan, report, gate, review, evidence, reanalyze,
calibrate.
"""
