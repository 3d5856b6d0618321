"""README and docs/ against the code: commands parse and select something, links exist, the contract is the types'."""

from __future__ import annotations

import datetime
import json
import re
import shlex
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from harness.cli import group
from harness.cli.upstream import command as upstream
from harness.matrix import Matrix, load_matrix, select
from harness.matrix.schema import EnvironmentEntry, KnownFailureEntry, MatrixFile, ModelEntry, Selection
from harness.model.cell import Surface, Tier
from harness.model.errors import HarnessError, MatrixError, UsageError
from harness.model.record import SCHEMA, Candidate, Category, Evidence, Finding, Outcome, Record
from harness.model.replay import Alarm, Caught, Names, ReleaseAlarms, Replay, Replayed, ReplayEntry
from harness.model.run import Comparison, Manifest, Row, Run, Verdict
from harness.model.subject import Aiter, Subject
from harness.model.target import Attachment, Platform
from harness.report.machine import check_json, compare_json
from harness.report.replays import replay_json
from harness.targets.facts import TARGETS

TODAY = datetime.date(2026, 1, 1)
ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
SELECTION = ("targets", "tiers", "kernels", "models", "environments")

NO_DEVICE = "  - {surface: allowlist, targets: [none], chosen: refused"
"""The beginning of a line of the repository's matrix."""

FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
FILE = re.compile(r"(?:harness|suites|fixtures|tests|benchmarks|docs)/[\w./-]+")


# ---- what a page says


def commands_in(text: str) -> Iterator[list[str]]:
    """The command lines of ``gfxloop`` and ``pytest`` in the fenced blocks, without redirections."""
    for _, body in FENCE.findall(text):
        for line in body.splitlines():
            found = re.fullmatch(r"(?:\s*command: )?((?:gfxloop|pytest) [^:].*)", line)
            if found:
                yield shlex.split(re.split(r" [|>] ", found[1])[0])


def spans_in(text: str) -> list[str]:
    """Inline code outside the fenced blocks."""
    return SPAN.findall(FENCE.sub("", text))


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def headings(text: str) -> list[str]:
    return re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)


def table(text: str, heading: str) -> dict[str, str]:
    """The first table below a heading: the code in the first column -> the rest of the row."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if re.fullmatch(rf"#+ {re.escape(heading)}", line))
    rows: dict[str, str] = {}
    for line in lines[start + 1 :]:
        if line.startswith("#") or (rows and not line.startswith("|")):
            break
        row = re.match(r"\| `?([\w -]+?)`? \|(.*)\|$", line)
        if row and not row[1].startswith("---"):
            rows[row[1]] = row[2]
    return dict(list(rows.items())[1:])  # without the head


# ---- what the code says of it


def broken_links(page: Path, text: str) -> list[str]:
    """Relative links of a page to files or headings that do not exist."""
    bad = []
    for link in LINK.findall(FENCE.sub("", text)):
        if re.match(r"https?:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        inside = target.suffix == ".md" and target.is_file()
        if not target.exists() or (anchor and inside and anchor not in map(slug, headings(target.read_text()))):
            bad.append(link)
    return bad


def parse(words: list[str]) -> click.Context:
    """Let click parse a whole command line of gfxloop, without running it.

    Raises:
        click.UsageError: it does not parse.
    """
    command: click.Command = group
    context = click.Context(group)
    words = words[1:]
    while isinstance(command, click.Group):
        name, found, words = command.resolve_command(context, words)
        assert found is not None, name
        command = found
    return command.make_context(command.name, list(words))


def check_selection(context: click.Context, matrix: Matrix) -> None:
    """The words of a command name what exists, and select at least one cell of ``matrix``."""
    params = context.params
    chosen = {key: params[key] for key in SELECTION if key in params}
    chosen |= {f"{key}s": (params[key],) for key in ("model", "target") if params.get(key)}
    if "cell_id" in params:
        chosen["ids"] = (params["cell_id"],)
    select(matrix.cells, **chosen, all_targets=TARGETS.values())


def manifest() -> Manifest:
    subject = Subject(spec="pypi:1", version="1", digest="d", aiter=Aiter(spec="none", mode="none"))
    return Manifest(
        gfxloop="1",
        harness_digest="h",
        started="s",
        finished=None,
        command="c",
        subject=subject,
        matrix_digest="m",
        targets=(),
        tiers=(),
        versions={},
        cells=0,
    )


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def contract() -> str:
    return text_of("docs/json.md")


# ---- commands

DOCUMENTED = sorted({shlex.join(words): words for page in PAGES for words in commands_in(page.read_text())}.items())


def test_the_pages_have_commands():
    assert sum(words[0] == "gfxloop" for _, words in DOCUMENTED) > 10
    assert any(words[0] == "pytest" for _, words in DOCUMENTED)


@pytest.mark.parametrize("words", [pytest.param(words, id=line) for line, words in DOCUMENTED if words[0] == "gfxloop"])
def test_a_documented_command_parses_and_selects_something(words, matrix):
    context = parse(words)
    if context.command.name != "run":
        check_selection(context, matrix)


@pytest.mark.parametrize(
    "words",
    [pytest.param(words, id=line) for line, words in DOCUMENTED if words[0] == "pytest" or words[1] == "run"],
)
def test_the_options_for_pytest_exist(words, matrix, pytestconfig):
    missing = object()
    own = {name for parameter in upstream.params for name in parameter.opts} if "--upstream" in words else set()
    for word in words:
        if word.startswith("--") and word not in own:
            assert pytestconfig.getoption(word.partition("=")[0], missing) is not missing, word
    marks = {target.mark for target in matrix.targets.values()} | {f"tier_{tier}" for tier in Tier}
    assert {words[i + 1] for i, word in enumerate(words) if word == "-m"} <= marks


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_command_in_the_text_exists_with_its_options(page):
    for span in spans_in(page.read_text()):
        words = shlex.split(span) if span.startswith("gfxloop ") else []
        if not words or not re.fullmatch(r"[a-z]+", words[1]):
            continue
        command = group.get_command(click.Context(group), words[1])
        assert command is not None, span
        if isinstance(command, click.Group) and len(words) > 2:
            command = command.get_command(click.Context(command), words[2])
            assert command is not None, span
        if "--upstream" in words:
            command = upstream
        options = {word for word in words if word.startswith("--")}
        assert options <= {name for parameter in command.params for name in parameter.opts}, span


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("gfxloop chek", click.UsageError),
        ("gfxloop check --targets gfx942", click.NoSuchOption),
        ("gfxloop compare pypi:0.28.0", click.MissingParameter),
        ("gfxloop matrix show", click.UsageError),
        ("gfxloop check --target gfx9999", UsageError),
    ],
)
def test_a_wrong_command_is_caught(line, error, matrix):
    with pytest.raises(error):
        check_selection(parse(shlex.split(line)), matrix)


# ---- links and files


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_exist(page):
    assert not broken_links(page, page.read_text())


def test_a_broken_link_is_caught():
    page = ROOT / "README.md"
    text = "[a](docs/none.md) [b](docs/subjects.md#no-such-heading) [c](docs/subjects.md#the-cache) [d](https://x.org)"
    assert broken_links(page, text) == ["docs/none.md", "docs/subjects.md#no-such-heading"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_named_in_the_text_exist(page):
    named = {span for span in spans_in(page.read_text()) if FILE.fullmatch(span)}
    assert not [name for name in named if not (ROOT / name).exists()]


def test_the_readme_fits_and_its_picture_is_small():
    picture = ROOT / "docs" / "report.png"
    assert len(text_of("README.md").splitlines()) <= 150
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 200_000


# ---- the machine contract


@pytest.mark.parametrize(
    ("heading", "members"),
    [("outcomes", Outcome), ("verdicts", Verdict), ("tiers", Tier), ("surfaces", Surface), ("categories", Category)],
)
def test_a_closed_set_is_named_whole(contract, heading, members: type[StrEnum]):
    assert set(table(contract, heading)) == {member.value for member in members}


def test_the_outcomes_that_fail_a_run_are_the_bad_ones(contract):
    failing = {name for name, row in table(contract, "outcomes").items() if row.rstrip().endswith("| yes")}
    assert failing == {outcome.value for outcome in Outcome if outcome.is_bad}


def test_fields_are_those_of_the_types(contract):
    assert set(table(contract, "Record")) == set(Record.model_fields)
    assert set(table(contract, "Manifest")) == set(Manifest.model_fields)
    assert set(table(contract, "Subject")) == {*Subject.model_fields, "identity", "options"}


def test_fields_inside_fields_are_named(contract):
    rows = {**table(contract, "Record"), **table(contract, "Subject")}
    kinds = {"candidates": Candidate, "evidence": Evidence, "findings": Finding, "aiter": Aiter}
    for name, kind in kinds.items():
        assert set(kind.model_fields) <= set(SPAN.findall(rows[name])), name
    for name, members in {"platform": Platform, "attachment": Attachment}.items():
        assert {member.value for member in members} <= set(SPAN.findall(rows[name])), name


def test_check_and_compare_print_the_fields_named(contract):
    one = manifest()
    checked = check_json(Run(manifest=one, records=()))
    rows = (Row(id="x", verdict=Verdict.ADDED, why="w", before=None, after=None),)
    compared = compare_json(Comparison(baseline=one, candidate=one, rows=rows))
    assert set(table(contract, "check --json")) == set(checked)
    assert set(table(contract, "compare --json")) == set(compared)
    assert set(compared["rows"][0]) == set(SPAN.findall(table(contract, "compare --json")["rows"]))
    assert set(checked["verdict"]) == set(SPAN.findall(table(contract, "check --json")["verdict"]))


def test_replay_prints_the_fields_named(contract):
    body = replay_json(Replay(entries=()))
    rows = {name: set(SPAN.findall(row)) for name, row in table(contract, "replay --json").items()}
    assert set(rows) == set(body)
    assert set(body["d1"]) == rows["d1"]
    assert set(body["d2"]) == rows["d2"]
    assert set(Replayed.model_fields) | {*Caught, *Names} == rows["entries"]
    assert set(ReleaseAlarms.model_fields) | set(Alarm.model_fields) | {"--releases"} == rows["releases"]


def test_the_keys_of_a_list_of_faults_are_described():
    assert set(table(text_of("docs/replay.md"), "The list")) == set(ReplayEntry.model_fields)


def test_matrix_list_prints_the_fields_named(contract):
    printed = CliRunner().invoke(group, ["matrix", "list", "--target", "cpu", "--tier", "guard", "--json"])
    body = json.loads(printed.stdout)
    fields = table(contract, "matrix list --json")
    assert set(body) == set(fields)
    assert set(body["cells"][0]) == set(SPAN.findall(fields["cells"]))


def test_exit_codes_are_those_of_the_errors(contract):
    codes = {kind.exit_code for kind in [HarnessError, *HarnessError.__subclasses__()]}
    assert {int(code) for code in table(contract, "Exit codes")} == codes | {0, 1}


def test_the_schema_version_is_the_current_one(contract):
    assert f"it is `{SCHEMA}`" in contract


def test_a_missing_and_a_stale_row_are_caught(contract):
    stale = contract.replace("| `guard` | runs |", "| `gard` | runs |")
    assert set(table(stale, "tiers")) ^ {tier.value for tier in Tier} == {"gard", "guard"}


# ---- matrix.md


def test_the_small_matrix_is_right_and_uses_every_key(tmp_path):
    (body,) = [body for language, body in FENCE.findall(text_of("docs/matrix.md")) if language == "yaml"]
    path = tmp_path / "matrix.yaml"
    path.write_text(body)
    assert load_matrix(path, TARGETS, TODAY).cells
    keys = {info.alias or name for name, info in MatrixFile.model_fields.items()}
    assert set(re.findall(r"^(\w+):", body, re.MULTILINE)) == keys == set(table(text_of("docs/matrix.md"), "Keys"))


def test_every_key_of_an_entry_is_described():
    named = set(spans_in(text_of("docs/matrix.md")))
    for entry in (EnvironmentEntry, ModelEntry, Selection, KnownFailureEntry):
        assert {info.alias or name for name, info in entry.model_fields.items()} <= named, entry.__name__


@pytest.mark.parametrize(
    ("right", "wrong", "number"),
    [
        ("[gfx90a, gfx1100, gfx1151], chosen: refused", "[gfx90a, gfx110, gfx1151], chosen: refused", 0),
        (
            NO_DEVICE,
            f"{NO_DEVICE.replace('refused', 'accepted')}, because: x, source: y}}\n{NO_DEVICE}",
            1,
        ),
    ],
)
def test_the_error_messages_are_real(tmp_path, matrix, right, wrong, number):
    path = tmp_path / "matrix.yaml"
    text = matrix.path.read_text()
    assert text.count(right) == 1
    path.write_text(text.replace(right, wrong))
    messages = re.findall(r"^gfxloop: (matrix\.yaml:.*)$", text_of("docs/matrix.md"), re.MULTILINE)
    with pytest.raises(MatrixError) as caught:
        load_matrix(path, TARGETS, TODAY)
    anywhere = re.compile(r":\d+:\d+")
    assert anywhere.sub("", messages[number]) == anywhere.sub("", str(caught.value)).replace(f"{tmp_path}/", "")
