# SPDX-License-Identifier: GPL-2.0
"""The guest's part of skylight, with the virtual clock: run scripts/skylight on a
drive and mark the answers.

  skylight.py OUT DRIVE       DRIVE is JSON, see tests/guest/skylight.py and controls.py
"""

import json
import os
import sys
from pathlib import Path

from guest import controls


def main():
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    drive = controls.Control(json.loads(sys.argv[2]))
    out = Path(sys.argv[1])
    if drive.spec.get("seconds"):
        status = drive.explained(out, drive.spec["seconds"])
    elif drive.spec.get("quick"):
        status = drive.look_quickly(out)
    else:
        status = drive.look_at_all(out)
    late, too_often = drive.late()
    if late:
        print(f"skylight: {late}", flush=True)
    drive.close()
    return status or (3 if too_often else 0)


if __name__ == "__main__":
    sys.exit(main())
