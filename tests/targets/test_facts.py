from __future__ import annotations

import re
from collections import defaultdict

import pytest

from harness.model.target import Fact, Platform, Target
from harness.targets.facts import _ROWS, TARGETS


def test_no_two_rows_have_one_name() -> None:
    assert len(TARGETS) == len(_ROWS)


def test_each_gfx_target_has_exactly_one_default_product() -> None:
    defaults: dict[str, int] = defaultdict(int)
    for target in TARGETS.values():
        defaults[target.gfx] += target.default
    assert set(defaults.values()) == {1}


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_every_row_names_its_source_and_has_a_name_that_is_safe_in_ids_and_marks(target: Target) -> None:
    assert len(target.fact.source) > 20
    assert re.fullmatch(r"[A-Za-z0-9]+(/[A-Za-z0-9]+)?", target.name)
    assert target.mark.isidentifier()


@pytest.mark.parametrize("target", [t for t in TARGETS.values() if t.platform is Platform.ROCM], ids=lambda t: t.name)
def test_the_facts_of_a_rocm_row_agree_with_each_other(target: Target) -> None:
    assert target.wavefront == (64 if target.family in ("CDNA2", "CDNA3", "CDNA4") else 32)
    assert target.multiprocessors * (2 if target.family.startswith("RDNA") else 1) == target.cu_count
    assert re.fullmatch(r"0x[0-9a-f]{4}|", target.device_id)
    assert target.capability is not None
    major, minor = target.capability
    # gfx90a is the one whose last letter is no part of the number that HIP reports
    assert target.gfx.removeprefix("gfx").startswith(f"{major}{minor}")
    assert target.lds_bytes in (64 << 10, 160 << 10, 320 << 10)


@pytest.mark.parametrize("target", [t for t in TARGETS.values() if t.platform is Platform.CUDA], ids=lambda t: t.name)
def test_the_capability_of_a_cuda_row_is_its_name(target: Target) -> None:
    assert target.capability is not None
    assert target.gfx == f"sm{target.capability[0]}{target.capability[1]}"


def test_the_two_products_of_gfx942_differ_in_what_tuned_tables_ask_for() -> None:
    assert TARGETS["gfx942/MI300X"].cu_count != TARGETS["gfx942/MI308X"].cu_count


def test_marks_are_those_that_users_type() -> None:
    marks = {target.mark for target in TARGETS.values()}
    assert {"rocm_gfx942", "rocm_gfx1100", "cuda_sm90", "xpu", "cpu", "none"} <= marks


def test_a_fact_that_hardware_confirmed_says_so():
    assert Fact("a data sheet").words == "a data sheet"
    assert Fact("a data sheet", "run 7 on an MI300X").words == "a data sheet; confirmed on hardware: run 7 on an MI300X"
