"""Run on Ray: place engines, call them from stages, stream a run through the pipeline. Only this
room imports Ray."""
