"""Build the library of rewordings: candidates, gates, and an artefact that every run can name by
its hash and reuse.

    question --strategy (template, file, paraphrase_llm)--> Candidate
             --gates (novelty, distance, rules, NLI, judge)--> Variant, accepted or not, every gate's value kept
             --library--> variants.arrow   (a run names it by hash)
    after a run: reference panel; by a person: a random sample, which bounds the share of broken
    variants

    record       Candidate, Variant, Header, Library       config     what may change, the window (conf/rewording/)
    strategies   the ways of making candidates            rules      what a rewording must not touch (pure)
    build, run   items -> library                          ask        paraphraser and judge, through the pipeline
    arrow        the file; found by hash, name or path     funnel     how many are left after each gate
    select       the variants of a run's questions         combine    diff, merge
    review_file  the form in which a person reviews

Command: audit variants build|list|show|diff|merge|export|review.
"""
