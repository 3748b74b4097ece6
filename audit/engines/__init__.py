"""Answer requests: the engine port and its adapters. They know vLLM and HTTP, but neither Ray nor
any audit."""
