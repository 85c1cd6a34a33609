"""`rowcall work rowcall.torture.worker_app:jobs`: the app of the workers, in the environment that the fleet sets."""

from __future__ import annotations

import os
from pathlib import Path

from rowcall.torture.witness import WitnessFile
from rowcall.torture.workload import FOLDER, NAME, PREFIX, Workload, opened

jobs = opened(None, os.environ[PREFIX])
Workload(jobs, WitnessFile(Path(os.environ[FOLDER], f"{os.environ[NAME]}.attempts")))
