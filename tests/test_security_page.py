"""Every promise of SECURITY.md names a test that is there."""

import re
from pathlib import Path

from benchmarks.reliability import edges

PAGE = Path("SECURITY.md").read_text()


def test_every_promise_names_its_test():
    promised = PAGE.partition("## Promised")[2].partition("\n## ")[0]
    rows = [line for line in promised.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 15
    for row in rows:
        (test,) = re.findall(r"`(tests/[^`]+)`", row)
        file, _, name = test.partition("::")
        assert Path(file).is_file(), row
        function, _, case = name.partition("[")
        assert f"def {function}" in Path(file).read_text(), row
        assert not case or case.removesuffix("]") in edges.CASES, row
