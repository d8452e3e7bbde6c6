"""python -m benchmarks.reliability.fuzz_program READER SECONDS: a reader of `fuzz`, guided by the code it reaches."""

import sys
import tempfile
from pathlib import Path

import atheris

# Nothing of ours may be imported before it is instrumented.
with atheris.instrument_imports(include=["sbeed"]):
    import sbeed.experiments.journal
    import sbeed.experiments.spec
    import sbeed.reporting.figure_folder
    import sbeed.reporting.report_page
    import sbeed.storage.datasets
    import sbeed.storage.inspect
    import sbeed.storage.minari
    import sbeed.storage.models
    import sbeed.training.session  # noqa: F401
    from benchmarks.reliability import fuzz


def main() -> None:
    name, seconds = sys.argv[1], sys.argv[2]
    with tempfile.TemporaryDirectory() as text:
        place = Path(text)
        fuzz.prepare(place)
        (place / "found").mkdir()
        options = [f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048", f"-artifact_prefix={text}/"]

        def once(content: bytes) -> None:
            fuzz.read(fuzz.READERS[name], place, content)

        atheris.Setup([sys.argv[0], *options, str(place / "found"), str(fuzz.CORPUS / name)], once)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
