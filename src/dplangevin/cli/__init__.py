"""The command line `dplangevin`: price and calibrate mechanisms, compare methods, show claims and exhibits.

Commands import what they need when they run, so that `dplangevin --help` is quick.
"""

import io
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dplangevin.cli import audit_learner, compare, price, receipt, results
from dplangevin.files import with_fix

DEBUG = "DPL_DEBUG"  # environment variable: show the traceback of an error
# errors that a user can correct, with DataError
WRONG = (typer.TyperException, ValueError, TypeError, OSError, ImportError, ArithmeticError, MemoryError)


class Commands(TyperGroup):
    """Group of commands that ends on every error with one line on stderr and exit status 2."""

    def main(
        self, args: Sequence[str] | None = None, prog_name: str | None = None, *_: Any, **extra: Any
    ) -> Any:
        extra["standalone_mode"] = False
        try:
            status = super().main(args, prog_name or "dplangevin", **extra)
        except typer.Abort:
            _stop("stopped", 130)
        except Exception as error:
            from dplangevin.data import DataError

            if os.environ.get(DEBUG) or not isinstance(error, (*WRONG, DataError)):
                raise
            _stop(_message(error), 2)
        sys.exit(status if isinstance(status, int) else 0)


def _message(error: Exception) -> str:
    """Return the error message in one line."""
    text = error.format_message() if isinstance(error, typer.TyperException) else str(error)
    if isinstance(error, OSError) and error.strerror:
        error = with_fix(error)
        text = ": ".join(filter(None, [error.filename and str(error.filename), error.strerror]))
    return " ".join(text.split()) or type(error).__name__


def _stop(text: str, status: int) -> None:
    print(f"dplangevin: {text}", file=sys.stderr)
    sys.exit(status)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Price, calibrate, attack and compare private learners; show what three papers claim, and our verdicts.",
    epilog="An error is one line, with exit status 2. DPL_DEBUG=1 shows its traceback.",
)
EXAMPLES: dict[Callable[..., None], str] = {
    price.price: "dplangevin price --sampling poisson --records 60000 --batch 128 --noise 1.1 --epochs 20",
    price.calibrate: "dplangevin calibrate --records 60000 --batch 128 --epochs 20 --epsilon 1 --delta 1e-5",
    audit_learner.audit: "dplangevin audit mine:Learner --args epsilon=1.0 --claims 1.0,0",
    receipt.receipt: "dplangevin receipt log.jsonl",
    compare.compare: "dplangevin compare my.csv --schema schema.yaml --epsilon 0.1,1,10",
    compare.schema: "dplangevin schema my.csv --target label > schema.yaml",
    results.claims: "dplangevin claims wang2015_lemma5",
    results.exhibits: "dplangevin exhibits",
}
for command, example in EXAMPLES.items():
    app.command(epilog=f"Example: {example}")(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"dplangevin {version('dplangevin')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options of the program itself."""


def main() -> None:
    """Run the console script; a terminal that cannot show a character gets a question mark."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # stderr never fails: its default is backslashreplace
        sys.stdout.reconfigure(errors="replace")
    app()
