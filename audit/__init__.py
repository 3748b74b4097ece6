"""Is a benchmark score ability, or memory of the exam? A router-worker audit with measured error rates.

    question -> prompts -> engine -> messages -> aggregate -> worker prompt -> engine -> answer -> score -> Arrow shard
                                                                        shards -> statistics -> verdict -> report

    records      the one vocabulary               errors    the exception tree
    config       the Hydra schema                 design    which settings are run (pure)
    benchmarks   published rows -> questions      prompting router, aggregate and worker prompts (pure)
    runtime      the only place with ray or vllm  scoring   text or logprobs -> answer (pure)
    shards       schema, write, scan, verify      summary   accuracy per setting
    statistics   arrays -> result objects (pure)  verdict   gates, decision, self-test (pure)
    report       tables, figures, one HTML page

Commands (python -m audit.<name>): sweep, plan, report, gate, reanalyze, calibrate.
"""
