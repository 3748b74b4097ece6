"""Plant contamination to measure how much of it this program would notice.

A model is taught half of a benchmark, and every indicator is computed on it.

    resolve     a configuration -> what is trained and asked, pinned and checked
    texts       which half is learnt, the training texts of a form, which tokens are learnt (pure)
    train       a process of its own: LoRA (peft) or full fine-tuning, one folder a dose
    measure     the audits of base and planted models, from which the indicators are computed
    indicators  answers and likelihoods -> the value of each indicator, its p, its AUC (pure)
    words       texts for people: plan, result, dose-response

The other half is never shown: it is the control inside the experiment.
"""
