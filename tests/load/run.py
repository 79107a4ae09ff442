"""Replicas of the service on PostgreSQL under load, one killed every minute: python tests/load/run.py [--minutes 30].

A finding is an error or a wrong answer, as the first lines of dmn4/benchmark/service.py say, or a store that `check`
finds at fault afterwards.
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
import postgres

from dmn4.benchmark.service import load_test
from dmn4.web.store import Store
from dmn4.web.store.backup import check


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--kill-every", type=float, default=60, help="seconds; 0: never")
    parser.add_argument("--out", type=Path, default=Path("out/load.json"))
    given = parser.parse_args()
    with postgres.server() as folder, tempfile.TemporaryDirectory() as files:
        url = postgres.database(folder, "load")
        found = load_test(given.clients, 60 * given.minutes, out=given.out, replicas=given.replicas, store=url,
                          files=files, kill_every=given.kill_every)
        store = Store(url, files)
        damage = list(check(store))
        store.close()
    print(*damage, f"{len(damage)} problems in the store afterwards", sep="\n")
    return int(bool(found.errors or found.wrong or damage))


if __name__ == "__main__":
    sys.exit(main())
