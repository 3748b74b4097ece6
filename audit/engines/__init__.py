"""Answer requests: the engine port and its adapters. They use vLLM and HTTP, but neither Ray nor
any audit.
"""
