"""`schema`: JSON Schema of the files people write, for editors."""

from __future__ import annotations

from typing import Annotated

import typer

from tiertune.tuner.cli.failures import guarded


@guarded
def schema(
    kind: Annotated[
        str, typer.Argument(help="campaign, claims, gallery, machine, space, suite, sweep, workload.")
    ],
) -> None:
    """Print the JSON Schema of a kind of file.

    \b
    Example:
      tiertune schema campaign > campaign.schema.json
    """
    from tiertune.tuner.cli.output import print_json
    from tiertune.tuner.schemas import schema_for

    print_json({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema_for(kind)})
