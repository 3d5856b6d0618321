"""Read a run directory back, written by this version or an earlier one, finished or cut off, whole or merged.

In: a folder. Out: a ``Run`` whose notes say what had to be forgiven. It never writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from harness.model.errors import RunDirectoryError, located
from harness.model.record import SCHEMA, Record
from harness.model.run import Manifest, Run
from harness.records.layout import MANIFEST, SHARDS, identity_in, run_identity


def read_run(directory: Path) -> Run:
    """All records of a run directory, from all its shards in the order of their names.

    Forgiven, with a note: a shard that ends in half a line (the writer was killed), a record that contradicts an
    earlier one (the later one wins), fewer records than the run has cells. Identical duplicates are merged silently.

    Raises:
        RunDirectoryError: not a run directory, written by a later version, a shard of another run, or a damaged line.
    """
    manifest = read_manifest(directory)
    records: dict[str, Record] = {}
    notes: list[str] = []
    contradicted: dict[str, int] = {}
    for shard in sorted(directory.glob(SHARDS)):
        _check_identity(shard, manifest)
        for record in _records_of(shard, notes):
            if records.setdefault(record.id, record) != record:
                contradicted[record.id] = contradicted.get(record.id, 1) + 1
                records[record.id] = record
    notes += [f"{id_}: {count} different records; the last one is used" for id_, count in contradicted.items()]
    if len(records) < manifest.cells:
        notes.append(f"{len(records)} of {manifest.cells} records: the run was cut off")
    return Run(manifest=manifest, records=tuple(records.values()), notes=tuple(notes))


def read_manifest(directory: Path) -> Manifest:
    """The manifest of a run directory.

    Raises:
        RunDirectoryError: missing, not readable, not a manifest, or of a later schema version.
    """
    path = directory / MANIFEST
    hint = "Give a folder that `gfxloop check --out` wrote."
    if not directory.is_dir():
        what = "not a folder" if directory.exists() else "there is no such folder"
        raise RunDirectoryError(located(str(directory), what, expected="a run directory", hint=hint))
    try:
        text = path.read_bytes()
        body = json.loads(text)
    except FileNotFoundError as error:
        raise RunDirectoryError(
            located(str(directory), f"not a run directory: no {MANIFEST} in it", hint=hint)
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise RunDirectoryError(located(str(path), f"cannot be read: {error}", hint=hint)) from error
    version = body.get("schema_version", SCHEMA) if isinstance(body, dict) else SCHEMA
    if isinstance(version, int) and version > SCHEMA:
        hint = f"Read it with gfxloop {body.get('gfxloop', 'of that version')} or later."
        what = "schema version of a later gfxloop"
        raise RunDirectoryError(located(str(path), what, got=version, expected=f"up to {SCHEMA}", hint=hint))
    try:
        return Manifest.model_validate_json(text)
    except ValidationError as error:
        raise RunDirectoryError(located(str(path), f"not a manifest: {_first(error)}", hint=hint)) from error


def _check_identity(shard: Path, manifest: Manifest) -> None:
    """Refuse a shard of another run, which copying can bring into the folder."""
    identity = identity_in(shard.name)
    expected = run_identity(manifest)
    if identity is not None and identity != expected:
        hint = "Runs are merged only when subject, matrix, harness and versions are equal. Move the shard away."
        raise RunDirectoryError(
            located(str(shard), "a shard of another run", got=identity, expected=expected, hint=hint)
        )


def _records_of(shard: Path, notes: list[str]) -> Iterator[Record]:
    """The records of one shard; half a last line becomes a note.

    Raises:
        RunDirectoryError: the file cannot be read, or a whole line is not a record.
    """
    try:
        lines = shard.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise RunDirectoryError(located(str(shard), f"cannot be read: {error.strerror or error}")) from error
    for number, line in enumerate(lines, start=1):
        try:
            yield Record.model_validate_json(line)
        except ValidationError as error:
            if not line.endswith(b"\n"):
                notes.append(f"{shard.name}:{number}: half a record at the end was ignored; its writer was stopped")
                return
            hint = "The line is damaged: restore the file, or delete the line to go on without that record."
            raise RunDirectoryError(
                located(f"{shard}:{number}", f"not a record: {_first(error)}", hint=hint)
            ) from error


def _first(error: ValidationError) -> str:
    """The first complaint of pydantic, in one line."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" if place else first["msg"]
