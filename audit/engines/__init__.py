"""What can answer a request: the port and its adapters. They know vLLM and HTTP, and neither Ray nor any audit."""
