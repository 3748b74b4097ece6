"""Ray and nothing else: where engines are placed, the stages that call them, the pipeline, a whole run."""
