"""The library of rewordings: candidates -> gates -> a content-addressed artefact that every run can name and reuse.

    question --strategy (template, file, paraphrase_llm)--> Candidate
             --gates (novelty, distance, rules, NLI, judge)--> Variant, accepted or not, every gate's value kept
             --library--> variants.arrow   (a run names it by hash)
    after a run: reference panel; by a person: a random sample, which bounds the share of broken variants

    record       Candidate, Variant, Header, Library       policy     what may change, the window (conf/rewording/)
    strategies   the ways of making candidates            rules      what a rewording must not touch (pure)
    build        items -> library                          funnel     how many are left after each gate
    arrow        the file                                  store      find a library by hash, name or path
    select       the variants of a run's questions         combine    diff, merge

Command: audit variants build|list|show|diff|merge|export|review.
"""
