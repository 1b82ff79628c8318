"""The benchmarks' harness: figures and their targets, and how results are shown and kept."""

import json
from pathlib import Path

import pytest

from proof.bench import report, runner
from proof.bench.__main__ import main
from proof.bench.figures import Bars, BenchResult, Better, Figure, Row

BARS = Bars(title="CPU", unit="µs", bars={"ours": 1.4, "theirs": 62.7})


def figure(value: float, *, better: Better = "higher", target: float = 35) -> Figure:
    return Figure("deliver.vs_batch_writer", value, target, "x", "batch_writer", better)


def result(value: float = 44.8) -> BenchResult:
    return BenchResult(
        figures=[figure(value)],
        rows=[Row("Fanfold", 1.4, "µs", "an entry")],
        setting={"pinned": "to two cores"},
        chart=BARS,
    )


def test_a_figure_reaches_a_share_of_its_target_and_is_met_at_all_of_it() -> None:
    cases: list[tuple[float, Better, float, float, bool]] = [
        (35, "higher", 35, 1.0, True),
        (34.9, "higher", 35, 1.0, False),
        (24.5, "higher", 35, 0.7, True),
        (0.49, "lower", 0.35, 0.7, True),
        (0.51, "lower", 0.35, 0.7, False),
    ]
    for value, better, target, share, reached in cases:
        found = figure(value, better=better, target=target)
        assert found.reaches(share) is reached
        assert found.met is (reached and share == 1.0)


def test_json_has_one_object_a_figure_with_the_six_agreed_fields() -> None:
    agreed = {"target": 35, "unit": "x", "better": "higher", "against": "batch_writer"}
    lines = list(report.json_lines([result(), result(1.0)]))
    assert [json.loads(line) for line in lines] == [
        {"name": "deliver.vs_batch_writer", "value": value, **agreed} for value in (44.8, 1.0)
    ]


def test_a_result_is_saved_in_the_readme_as_data_and_as_a_chart(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"# Deliver\n\n{report.BEGIN}\nan earlier result\n{report.END}\n\nMore.\n")
    report.save(result(), tmp_path)
    report.save(result(44.9), tmp_path)  # replaces the first
    text = readme.read_text()
    assert text.startswith(f"# Deliver\n\n{report.BEGIN}\n| figure |")
    assert text.endswith(f"![CPU](last.svg)\n{report.END}\n\nMore.\n")
    assert "| **44.9 x** | at least 35 x | met |" in text
    assert "an earlier result" not in text
    assert "; pinned: to two cores." in text
    (kept,) = (tmp_path / "last.jsonl").read_text().splitlines()
    assert json.loads(kept)["value"] == 44.9


def test_every_bench_has_a_readme_with_a_place_for_its_result() -> None:
    for name in runner.names():
        report.with_result((runner.folder(name) / "README.md").read_text(), result())
    with pytest.raises(ValueError, match="needs the lines"):
        report.with_result("# Deliver\n", result())


def test_an_unknown_bench_is_refused_with_the_names_of_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["delivre"]) == 2
    known = ", ".join(runner.names())
    assert capsys.readouterr() == ("", f"There is no bench 'delivre'; there are {known}.\n")
