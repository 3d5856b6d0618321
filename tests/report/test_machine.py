from __future__ import annotations

import json
from types import ModuleType

from harness.compare.compare import compare
from harness.model.record import Outcome, Record
from harness.model.run import Verdict
from harness.report.machine import as_text, check_json, compare_json


def test_the_check_contract_has_its_fields(samples: ModuleType) -> None:
    run = samples.realistic(faulty=True)
    body = json.loads(as_text(check_json(run)))
    assert list(body) == ["schema", "gfxloop", "subject", "manifest", "verdict", "summary", "notes", "records"]
    assert body["schema"] == 1
    assert body["subject"]["spec"] == "pypi:0.28.0"
    assert body["subject"]["identity"] == run.manifest.subject.identity
    assert body["verdict"] == {"exit_code": 1, "reasons": ["36 failed"]}
    assert body["summary"] == {outcome.value: 0 for outcome in Outcome} | {
        "passed": 522,
        "failed": 36,
        "unsupported": 18,
    }
    promised = {
        "id",
        "platform",
        "target",
        "tier",
        "surface",
        "kernel",
        "chosen",
        "outcome",
        "reason",
        "candidates",
        "findings",
    }
    assert all(promised <= set(record) for record in body["records"])
    failed = next(record for record in body["records"] if record["findings"])
    assert set(failed["candidates"][0]) >= {"name", "accepted", "reason"}
    assert set(failed["findings"][0]) == {"rule", "symbol", "message"}


def test_records_read_back_and_do_not_depend_on_their_order(samples: ModuleType) -> None:
    run = samples.realistic(faulty=False, models=1)
    body = check_json(run)
    assert {Record.model_validate_json(json.dumps(record)) for record in body["records"]} == set(run.records)
    reverse = run.model_copy(update={"records": run.records[::-1]})
    assert check_json(reverse) == body


def test_the_compare_contract_has_its_fields(samples: ModuleType) -> None:
    comparison = compare(samples.realistic(faulty=True), samples.realistic(faulty=False))
    body = json.loads(as_text(compare_json(comparison)))
    assert list(body) == ["schema", "gfxloop", "baseline", "candidate", "differs", "verdict", "summary", "rows"]
    assert body["summary"] == {verdict.value: 0 for verdict in Verdict} | {"unchanged": 540, "fixed": 36}
    rows = [row for row in body["rows"] if row["verdict"] == "fixed"]
    assert list(rows[0]) == ["id", "verdict", "rerouted", "why", "before", "after"]
    assert {(row["rerouted"], row["before"]["chosen"], row["after"]["chosen"]) for row in rows} == {
        (True, "TorchScaledMM", "ChannelWiseTorch")
    }


def test_a_missing_side_is_null(samples: ModuleType) -> None:
    (row,) = compare_json(compare(samples.run(), samples.run(samples.record())))["rows"]
    assert row["before"] is None
    assert row["after"]["id"] == row["id"]
    assert row["rerouted"] is False
