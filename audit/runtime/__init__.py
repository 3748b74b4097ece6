"""Run an audit on Ray. Only this package imports Ray.

It places the engines on GPUs, calls the engines, and streams the questions through the pipeline.
"""
