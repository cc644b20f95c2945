"""The `siflow-provider` command: its subcommands, and the one place where errors become messages and exit codes.

Exit codes: 0 fine (of `run`: succeeded), 1 the run failed or was lost (of `quota`: it could never be admitted), 2 a
wrong form or wrong usage, 3 stopped, 4 some clusters gave no answer: what was printed is not all.
Nothing here loads Airflow, but for a connection that only Airflow's own store has and for `import` of a DAG file.
"""

from __future__ import annotations

import sys

import typer

from siflow_provider.cli import convert, discover, doctor, forms, gc, quota, run, runs
from siflow_provider.cli.output import prepare_streams, print_error, write
from siflow_provider.errors import PartialAnswer, SiflowError

__all__ = ["app", "main"]

app = typer.Typer(
    name="siflow-provider",
    help="Check, render and run training tasks, and look after their runs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
catalog = typer.Typer(help="Check a catalog, or draft one.", no_args_is_help=True)
app.add_typer(catalog, name="catalog")

app.command("check")(forms.check)
app.command("render")(forms.render)
app.command("schema")(forms.schema)
catalog.command("check")(forms.catalog_check)
catalog.command("discover")(discover.catalog_discover)
app.command("run")(run.run)
app.command("ps")(runs.ps)
app.command("show")(runs.show)
app.command("logs")(runs.logs)
app.command("stop")(runs.stop)
app.command("gc")(gc.gc)
app.command("quota")(quota.quota)
app.command("doctor")(doctor.doctor)
app.command("import")(convert.import_)
app.command("export")(convert.export)


def main() -> None:
    """Run the command line; a user's mistake ends with a message and exit code 2, never with a traceback."""
    prepare_streams()
    try:
        try:
            app()
        finally:
            write("")  # what is still buffered, while a reader that has left (head, less) changes no exit code
    except SiflowError as error:
        print_error(str(error))
        sys.exit(4 if isinstance(error, PartialAnswer) else 2)


if __name__ == "__main__":
    main()
