# Two commands need nothing beforehand but Python 3.11 or later: `make serve` and `make test`.
# tox makes the environments (in .tox) and runs what is in tox.ini; ARGS is handed on:
#
#     make serve ARGS="--port 9000"
#     make test ARGS="tests/domain -k ledger"
#
# `make help` lists the rest.

# The first Python that is new enough; PYTHON=... chooses another.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
TOX = .venv/bin/tox
STAMP = .venv/.tox-is-installed
ARGS =

.PHONY: help serve test quick unit mutants demo bench fuzz stress sdks upgrade package dist lint types revision \
	constraints clean

help:
	@echo "make serve        the server, with a database of its own"
	@echo "make test         style, types and all tests: what has to pass before a change is merged"
	@echo "make quick        the tests that take less than 0.3 s each: three to four minutes in all"
	@echo "make unit         the rules alone, without a database"
	@echo "make mutants      whether unit tests notice small changes of the rules: 200, or MUTANTS=..., chosen by SEED=..."
	@echo "make lint types   the style, also of the documents; the types"
	@echo "make fuzz stress  the server against its documents, concurrent calls and histories, both at length"
	@echo "make sdks         generated clients in many languages, each on a journey"
	@echo "make upgrade      an older version on the newest schema, alone and beside this one"
	@echo "make dist         the wheel, the source archive and the clients, in dist; \`make package\` tries them"
	@echo "make demo bench   real purchases turned into points; how fast it is"
	@echo "make revision MESSAGE=...   the migration to the tables in code"
	@echo "make constraints  the exact versions of all packages, anew"
	@echo "make clean        remove the environments"

# First the environment, which may fail with much to say, then the work, which speaks for itself.
run = $(TOX) run -q -e $(1) --notest && $(TOX) run -qq -e $(1) --skip-pkg-install $(if $(2),-- $(2))
# In the environment of the tests, which takes a minute to make.
mypy = $(TOX) run -q -e py --notest && $(TOX) exec -qq -e py --skip-pkg-install -- mypy

# The server is not run by tox, which would not give it the time to end in order.
serve: $(STAMP)
	@$(TOX) run -q -e serve --notest
	@LOYALTY_LOG_FORMAT=$${LOYALTY_LOG_FORMAT:-text} exec .tox/serve/bin/loyalty serve $(ARGS)

# What ARGS names, or everything: the style and the types first, which are told sooner.
test: $(STAMP)
	@$(if $(ARGS),,$(call run,lint) && $(mypy) &&) $(call run,py,$(ARGS))

quick unit mutants demo bench fuzz stress sdks upgrade package dist lint: $(STAMP)
	@$(call run,$@,$(ARGS))

types: $(STAMP)
	@$(mypy) $(ARGS)

# make revision MESSAGE="Add the colour of badges": the migration to the tables in code.
revision: $(STAMP)
	@$(call run,revision,"$(MESSAGE)")

# The exact versions of all packages, for builds that can be repeated.
constraints: $(STAMP)
	@$(TOX) run -q -e constraints

clean:
	rm -rf .tox .venv build dist *.egg-info

$(STAMP): Makefile constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed; name it with PYTHON=..." >&2; exit 1; }
	@echo "Preparing .venv (only now) ..."
	@$(PYTHON) -m venv .venv
	@.venv/bin/python -m pip install -q --disable-pip-version-check -c constraints.txt tox
	@touch $@
