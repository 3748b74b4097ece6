"""One way of making candidates in each module, all pure: template (rules), file (rows that exist), paraphrase (a model)."""
