"""Train a model on half of a benchmark, and measure whether the audits detect the training.

    python -m audit.plant model=... benchmark=...

The exit code is 0 if the experiment finished, and 1 otherwise. It does not depend on what the
audits detected.
"""

import json

from audit.config.command_line import start
from audit.core.exits import run_command
from audit.plant.config import PlantConfig, from_hydra


def main() -> None:
    """Run the command: check the arguments, compose the configuration, run the experiment."""
    start(PlantConfig, from_hydra, plant)


def plant(config: PlantConfig) -> int:
    """Run an experiment: train, measure, and write the result.

    Modules that import slowly are imported after all checks of the configuration.

    Parameters
    ----------
    config : PlantConfig
        Validated configuration of the experiment.

    Returns
    -------
    int
        Exit code 0.
    """
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
    result, text = result_of(experiment, readings)
    write_figure(result, experiment.path / "sensitivity.png")
    (experiment.path / "sensitivity.json").write_text(
        json.dumps(result, indent=1) + "\n", encoding="utf-8"
    )
    (experiment.path / "sensitivity.md").write_text(text, encoding="utf-8")
    print(text)
    print(f"data     {experiment.path / 'sensitivity.json'}")
    print(f"table    {experiment.path / 'sensitivity.md'}")
    return 0


if __name__ == "__main__":
    run_command(main)
