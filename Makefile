# make demo: two verdicts in half a minute, from shipped answers; installs no engine.
# make audit: a finished router-worker audit of the embedded model.  make perturb, make memory, make validity: its other audits.
# make suite: all of them on one engine, a decision, an evidence pack.
# make sensitivity: what they notice of memory planted in it.  make test: the tests.  make test-long: those that take long.
# Each installs what it needs.

PYTHON ?= python3
# The engine's build: gpu where an NVIDIA driver is found, else cpu.
ENGINE ?= $(if $(shell command -v nvidia-smi 2>/dev/null),gpu,cpu)
# Overrides of the audit, such as: make audit ARGS="n=200 r=1..9"
ARGS ?=

# An environment that forbids bytecode has every process compile what it imports: vLLM's load takes twice as long.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed-$(ENGINE)
# The model that is included: a command that names no model asks for one.
EMBEDDED := model=smollm2_135m
# A demonstration sized for five minutes on two cores without AVX-512: too few questions for a verdict, one noisy run.
AUDIT := $(EMBEDDED) n=50 r=1..3 noisy_replicates=1

.PHONY: gpu demo audit perturb memory validity suite sensitivity test test-long test-apart test-pipeline test-real harnesses check bench external findings storm calibrate docs sbom install lock clean

# What the program does not say itself, once the run has ended well.
NEXT := @printf '\nNext: %s\n      (or `. $(VENV)/bin/activate` first, then just `audit ...`)\n'

audit: $(STAMP)
	$(PY) -m audit.sweep $(AUDIT) $(ARGS)
	$(NEXT) "$(VENV)/bin/audit plan model=qwen3_8b benchmark=arc_challenge   # what an audit that can reach a verdict would take"

# The core alone, in an environment of its own: no torch, no vLLM.
LIGHT := $(VENV)-light

demo: $(LIGHT)/.installed
	$(LIGHT)/bin/python -m audit demo $(ARGS)

$(LIGHT)/.installed: pyproject.toml
	$(PYTHON) -m venv $(LIGHT)
	$(LIGHT)/bin/python -m pip install --quiet --require-hashes -r requirements/uv.txt
	$(LIGHT)/bin/python -m uv pip install --quiet --python $(LIGHT)/bin/python --constraint requirements/cpu.txt --editable .
	touch $@

perturb: $(STAMP)
	$(PY) -m audit.perturb $(EMBEDDED) $(ARGS)

memory: $(STAMP)
	$(PY) -m audit.memory $(EMBEDDED) $(ARGS)

validity: $(STAMP)
	$(PY) -m audit.validity $(EMBEDDED) n=all $(ARGS)

# A decision other than pass (3, 4, 5) is an end as good as any; what failed (1) or was stopped (130) is none.
SUITE := outputs/suite-demo
DECIDED := || { code=$$?; [ $$code = 3 ] || [ $$code = 4 ] || [ $$code = 5 ] || exit $$code; }

# The pack is signed by a key that is made for it and thrown away: docs/do/governance.md has how to keep one.
suite: $(STAMP)
	$(PY) -m audit suite demo run_dir=$(SUITE) $(ARGS) $(DECIDED)
	@set -e; keys=$$(mktemp -d); trap 'rm -rf "$$keys"' EXIT; mkdir "$$keys/trusted"; \
	$(PY) -m audit review keygen demo --out "$$keys" >/dev/null; mv "$$keys/demo.pub" "$$keys/trusted"; \
	$(PY) -m audit evidence $(SUITE) -o $(SUITE)-pack.zip --key "$$keys/demo.key"; \
	$(PY) -m audit evidence verify $(SUITE)-pack.zip --keys "$$keys/trusted"
	$(NEXT) "$(VENV)/bin/audit gate $(SUITE) --format markdown"

# A part of the table of docs/findings/sensitivity.md: every weight trained on half of the items, five passes, two forms. Half an hour.
sensitivity: $(STAMP)
	$(PY) -m audit.plant 'forms=[qa,raw]' 'doses=[5]' train.method=full $(ARGS)

# Tests of a Ray run in two clusters, those of a real engine beside them, all else with what the cores have left. Each part
# prints when it ends. `make test ARGS=tests/unit/scoring` runs those alone.
test: $(STAMP)
ifeq ($(ARGS),)
	@echo 'Three parts at once, each of which prints when it has ended: about fifteen minutes on two idle cores.'
	@$(MAKE) --no-print-directory --output-sync --keep-going -j3 test-apart test-pipeline test-real
else
	$(PY) -m pytest $(ARGS)
endif

test-apart: $(STAMP)
	nice $(PY) -m pytest tests -m 'not long' --ignore tests/pipeline --ignore tests/real --numprocesses auto --maxprocesses 8 --dist loadgroup

test-pipeline: $(STAMP)
	$(PY) -m pytest tests/pipeline -m 'not long' --numprocesses 2 --dist loadfile

test-real: $(STAMP)
	$(PY) -m pytest tests/real -m 'not long'

# What takes long and seldom breaks: levels and coverage over many draws, large files. Before a release; ARGS as above.
test-long: $(STAMP)
	$(PY) -m pytest tests -m long --numprocesses auto --maxprocesses 8 --dist loadgroup $(ARGS)

# lm-eval and Inspect ask tasks of ours by their own mock models, and their logs come home. Each has an environment of its
# own, beside .venv; one that cannot be installed is skipped by name.
LM_EVAL ?= lm-eval==0.4.13
INSPECT ?= inspect_ai==0.3.285 openai
harnesses: $(STAMP)
	-$(PY) -m uv venv --quiet --clear $(VENV)-lm-eval && $(PY) -m uv pip install --quiet --python $(VENV)-lm-eval $(LM_EVAL)
	-$(PY) -m uv venv --quiet --clear $(VENV)-inspect && $(PY) -m uv pip install --quiet --python $(VENV)-inspect $(INSPECT)
	AUDIT_TEST_LM_EVAL=$(CURDIR)/$(VENV)-lm-eval/bin/python AUDIT_TEST_INSPECT=$(CURDIR)/$(VENV)-inspect/bin/python \
	  $(PY) -m pytest -rs tests/unit/export/test_tasks.py

check: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

bench: $(STAMP)
	PYTHONPATH=tests $(PY) -m bench $(ARGS)

# The engine on this machine's GPUs: values beside transformers, speed beside raw vLLM, adapters; a table in docs/findings/measured_gpu.md.
# ARGS="--large qwen3_8b" sweeps an 8B model too.
gpu: $(STAMP)
	PYTHONPATH=tests:. $(PY) -m bench.gpu $(ARGS)

# The program on evaluations that others published, as the tables of docs/findings/external.md; what is not in DATA is skipped by name.
DATA ?= ../shared/data
external: $(STAMP)
	PYTHONPATH=tests $(PY) -m external --data $(DATA) $(ARGS)

# The pages of docs/findings that are made from published files; ARGS="--page livecodebench" makes one.
findings: $(STAMP)
	PYTHONPATH=tests $(PY) -m external --data $(DATA) --findings docs/findings $(ARGS)

# Kills at random moments, added to docs/findings/storms.jsonl: ARGS="--seconds 600". Then an endpoint that misbehaves.
storm: $(STAMP)
	PYTHONPATH=tests $(PY) -m storm $(ARGS)
	PYTHONPATH=tests $(PY) -m storm.endpoint

calibrate: $(STAMP)
	$(PY) -m audit calibrate $(ARGS)

# The documentation as a site in outputs/site: static files, which need no network and no server.
docs: $(STAMP)
	$(PY) -m uv pip install --quiet --python $(PY) -r requirements/docs.txt
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --quiet --strict

# What is installed, with licences and dependencies, as CycloneDX: outputs/sbom.cdx.json.
SBOM := .venv-sbom
sbom: $(STAMP)
	$(PY) -m uv venv --quiet --clear $(SBOM)
	$(PY) -m uv pip install --quiet --python $(SBOM)/bin/python -r requirements/sbom.txt
	$(SBOM)/bin/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml -o outputs/sbom.cdx.json $(PY)

install: $(STAMP)
	$(NEXT) "$(VENV)/bin/audit demo   # two verdicts in half a minute, from shipped answers"

$(STAMP): requirements/$(ENGINE).txt requirements/overrides-$(ENGINE).txt requirements/install.sh pyproject.toml
	PYTHON=$(PYTHON) sh requirements/install.sh $(ENGINE) $(VENV)
	touch $@

# Pins every package again, without addresses: names and versions only.
lock:
	sh requirements/lock.sh

clean:
	rm -rf $(VENV) $(LIGHT) $(SBOM) $(VENV)-lm-eval $(VENV)-inspect .pytest_cache .mypy_cache .ruff_cache .hypothesis
