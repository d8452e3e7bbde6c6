"""Bytes that no program of ours has written: the corpus, and a draw of what `make bench-reliability` makes of it."""

import tempfile
from pathlib import Path

import pytest
from benchmarks.reliability import fuzz


@pytest.fixture(scope="module")
def place():
    with tempfile.TemporaryDirectory() as text:
        fuzz.prepare(Path(text))
        yield Path(text)


@pytest.mark.parametrize("name", fuzz.READERS)
def test_the_corpus_is_read_or_refused(place, name):
    for content in fuzz.corpus(name):
        fuzz.read(fuzz.READERS[name], place, content)


def test_mutations_are_read_or_refused():
    for trial in fuzz.trials(range(20_000, 20_000 + 40 * len(fuzz.READERS))):
        assert not trial.why, trial
        assert trial.seconds <= fuzz.LIMIT, trial
