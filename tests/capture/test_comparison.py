"""Goal: Report.compare says what `kscope diff` says, and keeps what it has when reports are closed.
Method: the program's own output on the same real traces."""

import json
import os
import pathlib
import pickle
import subprocess
import threading

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("KSCOPE_BIN", str(ROOT / "build" / "kscope"))
DATA = ROOT / "tests" / "data"
BEFORE = DATA / "A.pageable.bad.pt.trace.json.gz"
AFTER = DATA / "A.pageable.good.pt.trace.json.gz"
LISTS = ("runs", "step", "recording", "parts", "operators", "kernels", "memory", "findings")


@pytest.fixture
def ks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "python"))
    import kinetoscope

    return kinetoscope


def run(*words):
    return subprocess.run([PROGRAM, *words], check=True, capture_output=True, text=True).stdout


def test_comparison_is_that_of_the_program(ks):
    compared = ks.open(AFTER).compare(ks.open(BEFORE))
    wanted = json.loads(run("diff", "--json", BEFORE, AFTER))
    assert compared.document == wanted
    assert compared.verdict["step"] == "faster"
    for name in LISTS:
        assert getattr(compared, name) == wanted[name]
    assert str(compared) == run("diff", "--width", "100", "--color", "never", BEFORE, AFTER)
    text = run("diff", "--width", "80", "--limit", "2", "--color", "never", BEFORE, AFTER)
    assert compared.text(limit=2, width=80) == text
    assert compared.verdict["text"] in repr(compared)
    assert compared.verdict["text"] in compared._repr_html_()
    assert isinstance(compared, ks.Comparison)


def test_the_order_is_earlier_run_last(ks):
    """The report that is asked is the later run."""
    turned = ks.open(BEFORE).compare(ks.open(AFTER))
    assert turned.verdict["step"] == "slower"
    assert turned.runs[0]["path"] == str(AFTER)


def test_page_and_query_are_those_of_the_program(ks, tmp_path):
    compared = ks.open(AFTER).compare(ks.open(BEFORE))
    ours = compared.html(tmp_path / "ours.html")
    run("diff", "--html", tmp_path / "theirs.html", BEFORE, AFTER)
    assert pathlib.Path(ours).read_bytes() == (tmp_path / "theirs.html").read_bytes()
    sql = "select id, state from fact_compare_findings order by id, state"
    rows = compared.query(sql)
    wanted = json.loads(run("query", "--json", "--compare", BEFORE, AFTER, sql))
    assert [list(row) for row in rows] == wanted["rows"] and len(rows) > 0
    assert len(ks.open(AFTER).query(sql)) == 0


def test_it_outlives_its_reports(ks):
    before, after = ks.open(BEFORE), ks.open(AFTER)
    compared = after.compare(before)
    before.close()
    after.close()
    assert compared.verdict["step"] == "faster" and "pageable" in str(compared)
    with pytest.raises(RuntimeError, match="closed"):
        compared.query("select 1")
    with pytest.raises(RuntimeError, match="closed"):
        after.compare(ks.open(BEFORE))
    with pytest.raises(RuntimeError, match="closed"):
        ks.open(AFTER).compare(before)


def test_a_run_is_not_faster_than_itself(ks):
    report = ks.open(AFTER)
    compared = report.compare(report)
    assert compared.verdict["step"] == "no_difference"
    assert {row["state"] for row in compared.operators} == {"both"}
    assert all(row["change_ns"] == 0 for row in compared.kernels)
    assert report.document["schema"].startswith("kinetoscope.report")  # it can still be asked


def test_only_reports_compare(ks):
    from kinetoscope import _engine

    report = ks.open(AFTER)
    with pytest.raises(TypeError, match="Report"):
        report.compare(AFTER)
    with pytest.raises(TypeError):
        report._open.compare(1)
    with pytest.raises(TypeError, match="comparison"):
        report._open.query("select 1", 1)
    with pytest.raises(TypeError, match="comparison"):
        report._open.html("x.html", 1)
    with pytest.raises(TypeError, match="comparison"):
        _engine.write_comparison(None, "json")
    with pytest.raises(ValueError, match="sarif"):
        _engine.write_comparison(report._open.compare(report._open), "sarif")
    with pytest.raises((TypeError, pickle.PicklingError)):
        pickle.dumps(report.compare(report))


def test_threads_share_a_comparison(ks):
    compared = ks.open(AFTER).compare(ks.open(BEFORE))
    texts = []
    threads = [threading.Thread(target=lambda: texts.append(compared.text())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(texts) == 8 and len(set(texts)) == 1
