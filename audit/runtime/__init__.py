"""Run an audit on Ray: place engines, call them from stages, and stream a run through the pipeline.
Only this package imports Ray.
"""
