# make audit: a finished router-worker audit of the embedded model.  make perturb: its perturbation audit.  make memory: its
# memory audit.  make sensitivity: what the audits notice of memory planted in it.  make test: the tests.
# All install what they need.

PYTHON ?= python3
# The engine's build: gpu where an NVIDIA driver is found, else cpu.
ENGINE ?= $(if $(shell command -v nvidia-smi 2>/dev/null),gpu,cpu)
# Overrides of the audit, such as: make audit ARGS="n=200 r=1..9"
ARGS ?=

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed-$(ENGINE)
AUDIT := r=1..3 draws=nested ensemble_control=true clean_replicates=3

.PHONY: audit perturb memory sensitivity test check bench calibrate install lock clean

audit: $(STAMP)
	$(PY) -m audit.sweep $(AUDIT) $(ARGS)

perturb: $(STAMP)
	$(PY) -m audit.perturb n=all $(ARGS)

memory: $(STAMP)
	$(PY) -m audit.memory $(ARGS)

# A part of docs/sensitivity.md: half of the items, LoRA on the MLP's output, two forms, two doses.
sensitivity: $(STAMP)
	$(PY) -m audit.plant n=104 train.modules=[down_proj] train.lr=2e-3 forms=[qa,raw] doses=[1,4] $(ARGS)

test: $(STAMP)
	$(PY) -m pytest $(ARGS)

check: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

bench: $(STAMP)
	PYTHONPATH=tests $(PY) -m bench $(ARGS)

calibrate: $(STAMP)
	$(PY) -m audit.calibrate $(ARGS)

install: $(STAMP)

$(STAMP): requirements/$(ENGINE).txt requirements/overrides.txt requirements/install.sh pyproject.toml
	PYTHON=$(PYTHON) sh requirements/install.sh $(ENGINE) $(VENV)
	touch $@

# Pins every package again, without addresses: names and versions only.
lock:
	sh requirements/lock.sh

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
