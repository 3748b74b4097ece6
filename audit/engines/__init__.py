"""Define the interface for answering requests (the engine port) and its implementations (adapters).
The package uses vLLM and HTTP, but neither Ray nor the code of any audit.
"""
