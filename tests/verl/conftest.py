"""These tests run in verl's own environment (`make test-verl`); elsewhere they are not collected."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("verl") else ["test_*.py"]
