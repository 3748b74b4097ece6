"""What can answer a request: the port and its adapters. They know vLLM and HTTP, and neither Ray nor any audit.

port      what is asked of an engine           config    one model's configuration
vllm_engine, openai_engine, masked_engine, scripted: the adapters; only here is vllm imported, once an engine starts
processes an engine's processes end with ours
weights   names -> pinned weights              convert_gguf  a packaged GGUF -> a folder that vLLM loads
"""
