"""Run an audit on Ray: place the engines on GPUs, call the engines, and stream the questions
through the pipeline. Only this package imports Ray.
"""
