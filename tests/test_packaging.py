"""What is shipped: a typed wheel, and pinned requirements that name no index."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import sbeed

ROOT = Path(__file__).parent.parent


def test_the_wheel_is_typed_and_complete(tmp_path):
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    files = zipfile.ZipFile(wheel).namelist()
    assert "sbeed/py.typed" in files
    for kind in ("py", "css", "js"):
        for source in (ROOT / "src/sbeed").rglob(f"*.{kind}"):
            assert str(source.relative_to(ROOT / "src")) in files
    assert any(name.endswith("LICENSE") for name in files)


def test_requirements_are_pinned_by_hash_and_name_no_host():
    text = (ROOT / "requirements.txt").read_text()
    entries = re.split(r"(?m)^(?=\S)", text)[1:]
    assert len(entries) > 20
    for entry in entries:
        assert re.match(r"[\w.-]+==\S+ \\\n( +--hash=sha256:[0-9a-f]{64}( \\)?\n?)+$", entry), entry[:80]


def test_one_version():
    assert f'version = "{sbeed.__version__}"' in (ROOT / "pyproject.toml").read_text()
