"""Planted contamination: what would this program have seen? A model is taught half of a benchmark, and every indicator
is asked about it.

    plan    which half is learnt, in which forms, how many passes (pure)
    texts   the training texts of a form, and which tokens are learnt (pure)
    train   a process of its own: LoRA (peft) or full fine-tuning, one folder a dose
    measure what the indicators read of base and planted models, through the engine that the audits use
    indicators  answers and likelihoods -> the value of each indicator, its p, its AUC (pure)
    table   dose-response, what was noticed, the sentence, the data file (pure)

The other half is never shown: it is the control inside the experiment.
"""
