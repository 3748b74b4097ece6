"""Plant contamination in a model, to measure how much contamination this program would notice.

A model is trained on half of a benchmark, and every indicator of memory is computed for this model.

    resolve     converts a configuration to items, weights and texts, pinned and checked
    texts       chooses the learnt half, and writes training texts with the tokens to learn (pure)
    train       trains in a separate process: LoRA (peft) or full fine-tuning, one folder per dose
    measure     runs the audits on base and planted models, and collects what indicators need
    indicators  computes the value, the p and the AUC of each indicator (pure)
    words       writes the texts for people: plan, result, dose-response

The model is never trained on the other half of the benchmark, which serves as the control.
"""
