"""One way of making candidates in each module, all pure: template (rules), file, paraphrase (a model)."""
