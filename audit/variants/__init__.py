"""Build libraries of rewordings. Every run can name a library by its hash and reuse it.

    question --strategy (template, file, paraphrase_llm)--> Candidate
             --gates (novelty, distance, rules, NLI, judge)--> Variant with the value of every gate
             --library--> variants.arrow

After a run, the answers of the reference models can show that further variants are broken. A person
can read a random sample of the variants, which gives an upper limit of the share of broken
variants.

    record       Candidate, Variant, Header, Library     config    policies and windows of distance
    strategies   functions that make candidates          rules     changes that must be checked
    build, run   items -> library                        ask       calls of paraphraser and judge
    arrow        the file of a library                   funnel    candidates left after each gate
    select       the variants for a run's questions      combine   diff, merge, panel
    review_file  the form that a person fills in         plan      calls and cost of a build

Command: audit variants build|list|show|diff|merge|export|panel|review.
"""
