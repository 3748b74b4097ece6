"""`python -m audit.plant model=... benchmark=...`: teach a model half of a benchmark and see what the audits notice.

Exit codes: 0 the experiment finished, whatever was noticed; 1 it did not.
"""

import json

from audit.command_line import start
from audit.exits import run_command
from audit.plant.config import PlantConfig, from_hydra


def main() -> None:
    """The command: what it refuses, then Hydra, then the experiment."""
    start(PlantConfig, from_hydra, plant)


def plant(config: PlantConfig) -> int:
    """Train, measure, write; what is heavy is imported once nothing can be refused any more."""
    from audit.plant.resolve import resolve_plant

    experiment = resolve_plant(config)
    if config.plan:
        from audit.plant.words import plan_lines

        print("\n".join(plan_lines(experiment)))
        return 0
    from audit.plant.experiment import run_experiment
    from audit.plant.words import result_of, write_figure
    from audit.runtime.progress import Display

    with Display(quiet=not config.progress) as display:
        readings = run_experiment(experiment, display)
    found, text = result_of(experiment, readings)
    write_figure(found, experiment.path / "sensitivity.png")
    (experiment.path / "sensitivity.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (experiment.path / "sensitivity.md").write_text(text, encoding="utf-8")
    print(text)
    print(f"data     {experiment.path / 'sensitivity.json'}\ntable    {experiment.path / 'sensitivity.md'}")
    return 0


if __name__ == "__main__":
    run_command(main)
