"""Tables as people have them: each wart gives the right columns, or one line that names what is wrong and the fix.

Every table goes through `dplangevin compare` up to its fits, or through `dplangevin schema`.
"""
# ruff: noqa: E501

import ast
import io
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from dplangevin.cli import app, comparison
from dplangevin.data import Dataset

N = 30
FEATURES = ["x", "w=A", "w=B", "w=C", "bias"]
NUMBERS = [f"{(7 * i) % N}.5" for i in range(N)]
TEXTS = [*"ABC"] * (N // 3)
LABELS = ["yes" if (11 * i) % N < N // 2 else "no" for i in range(N)]


def csv(
    x: list[str] | None = None,
    w: list[str] | None = None,
    y: list[str] | None = None,
    mark: str = ",",
    end: str = "\n",
    header: str = "x,w,y",
    **more: list[str],
) -> str:
    """A table of N rows; more columns stand before the others."""
    columns = [*more.values(), x or NUMBERS, w or TEXTS, y or LABELS]
    lines = [",".join([*more, header]).replace(",", mark)]
    return end.join([*lines, *(mark.join(row) for row in zip(*columns, strict=True)), ""])


def put(values: list[str], *odd: str) -> list[str]:
    """The values, of which the third and those after it are others: line 4 and those after it."""
    return [*values[:2], *odd, *values[2 + len(odd) :]]


def index(values: list[str]) -> str:
    """A table whose first column has no name."""
    return csv(nameless=values).replace("nameless", "", 1)


class Wart(NamedTuple):
    """A table and what comes of it.  words: of the command line.  said: what is printed, too.  error: what is printed
    instead.  rows, features, classes: what is learned from."""

    name: str
    content: str | bytes
    words: str = ""
    said: tuple[str, ...] = ()
    error: str = ""
    rows: int = N
    features: list[str] = FEATURES
    classes: list[str] | None = ["no", "yes"]  # noqa: RUF012


def of(*features: str) -> list[str]:
    return [*features, *FEATURES]


CODE, TWIN = "1234567890123456788", "1234567890123456789"  # one number in double precision
COMMAS = [text.replace(".", ",") for text in NUMBERS]
ACCENTS = put(TEXTS, "får", "för")
WARTS = [
    # Bytes
    Wart("byte order mark", b"\xef\xbb\xbf" + csv().encode()),
    Wart("old Macintosh line ends", csv(end="\r")),
    Wart("Windows line ends", csv(end="\r\n")),
    Wart("blank lines", csv().replace("\n", "\n\n", 3) + "\n \n"),
    Wart("UTF-8", csv(w=ACCENTS), features=["x", "w=A", "w=B", "w=C", "w=får", "w=för", "bias"]),
    Wart("Latin-1", csv(w=ACCENTS).encode("latin-1"), error=r"line 4, byte \d+: 0xe5 is not utf-8: .*--encoding, such as cp1252"),
    Wart("one bad byte far down", csv().encode() + b"1,A\xff,no\n", error=r"line 32, byte \d+: 0xff is not utf-8"),
    Wart("a character that is cut", csv().encode() + b"1,A,no\xc3", error=r"line 32, byte \d+: 0xc3 is not utf-8"),
    Wart("UTF-16", csv().encode("utf-16"), error=r"line 1, byte 0: 0xff is not utf-8: .*--encoding, such as cp1252 or utf-16"),
    Wart("UTF-16, named", csv(w=ACCENTS).encode("utf-16"), "--encoding utf-16", said=("encoding utf-16",), features=["x", "w=A", "w=B", "w=C", "w=får", "w=för", "bias"]),
    Wart("UTF-16 without a mark", csv().encode("utf-16-le"), error="line 1: a character is 0, .*--encoding"),
    Wart("UTF-16 that is not", csv().encode(), "--encoding utf-32", error="is not utf-32"),
    Wart("a zero byte", csv().encode() + b"1,A\0,no\n", error="line 32: a character is 0"),
    Wart("an Excel workbook", b"PK\x03\x04" + bytes(50), error="a character is 0, .*save the table as CSV"),
    Wart("a gzip archive", b"\x1f\x8b\x08\x00" + bytes(50), error="line 1, byte 1: 0x8b is not utf-8: save the table as CSV"),
    Wart("an encoding that is none", csv(), "--encoding klingon", error="encoding = 'klingon' is not known: give one"),
    Wart("an encoding that computes", csv(), "--encoding unicode_escape", error="'unicode_escape' is not known"),
    Wart("an empty file", "", error="has no rows"),
    Wart("a header alone", "x,w,y\n", error="has no rows"),
    # Separators and quotes
    Wart("tabs", csv(mark="\t"), said=(r"separator '\t'",)),
    Wart("semicolons", csv(mark=";")),
    Wart("bars", csv(mark="|")),
    Wart("semicolons and commas", csv(x=COMMAS, mark=";"), "--decimal ,"),
    Wart("a named separator", csv(mark="~"), "--delimiter ~"),
    Wart("a tab by its name", csv(mark="\t"), "--delimiter tab"),
    Wart("a separator of two", csv(), "--delimiter ,,", error="delimiter = ',,' must be one character"),
    Wart("an unknown separator", csv(mark="~"), error="no column 'y' in the header: there are x~w~y: give the character between its names by --delimiter"),
    Wart("a note to Excel", "sep=,\n" + csv(), error="line 2: 3 values, expected 2"),
    Wart("values with line ends", csv(w=put(TEXTS, '"A\nB"', '"A\nB"')), features=["x", "w=A", "w=A\nB", "w=B", "w=C", "bias"]),
    Wart("doubled quotes", csv(w=put(TEXTS, '"a ""b"""')), features=["x", "w=A", "w=B", "w=C", 'w=a "b"', "bias"]),
    Wart("an inch mark", csv(w=put(TEXTS, '5" pipe')), features=["x", 'w=5" pipe', "w=A", "w=B", "w=C", "bias"]),
    Wart("a quote that stays open", csv(w=put(TEXTS, '"A')), error="line 4: unexpected end of data: is a quote never closed"),
    Wart("a quote inside quotes", csv(w=put(TEXTS, '"a "b" c"')), error="line 4: ',' expected after '\"': is a quote .* not doubled"),
    Wart("blanks around", csv(w=[f"  {t}\t" for t in TEXTS], y=[f"\u00a0{t} " for t in LABELS])),
    Wart("names with blanks", csv(header=" x , w ,y ")),
    Wart("a short row", csv() + "1.5,A\n", error="line 32: 2 values, expected 3: complete it, or put"),
    Wart("a long row", csv() + "1.5,A,no,7\n", error="line 32: 4 values, expected 3: complete it, or put values that have ',' in quotes"),
    Wart("separators at the end", csv() + "1.5,A,no,\n", error="line 32: 4 values, expected 3: complete it"),
    Wart("decimal commas among commas", csv(x=put(NUMBERS, "1,5")), error="line 4: 4 values, expected 3"),
    Wart("a row of separators", csv() + ",,\n", error="line 32, column y: a missing label \\(''\\), as in 1 of 31 rows: leave such rows out by --drop-unlabelled"),
    # Headers
    Wart("the same name twice", csv(header="x,x,y"), error="the header has 'x' twice: give each column"),
    Wart("no header", csv().split("\n", 1)[1], error="no column 'y' in the header"),
    Wart("no header, numbers alone", "1,2,3\n4,5,6\n", error="no column 'y' in the header: there are 1, 2, 3"),
    Wart("a target that is not there", csv(header="x,w,z"), error="no column 'y' in the header: there are x, w, z"),
    Wart("a target with a capital", csv(header="x,w,Y"), error="no column 'y' in the header: there are x, w, Y"),
    Wart("a quote never closed in the header", csv(header='"x,w,y'), error="line 1: unexpected end of data: is a quote never closed"),
    # Columns that are no features
    Wart("an index without a name", index([*map(str, range(N))]), said=("Not used, it has no name: column 1 (no name)",)),
    Wart("an index from 1", csv(id=[str(i + 1) for i in range(N)]), said=("Not used, it counts the rows: id.",)),
    Wart("an index that is the target's order", csv(n=[*map(str, range(N))], y=sorted(LABELS)), said=("counts the rows: n.",)),
    Wart("numbers that do not count", csv(k=[str(i // 2) for i in range(N)]), features=of("k")),
    Wart("a comma at the end of each line", csv().replace("\n", ",\n"), said=("it has no name: column 4 (no name)",)),
    Wart("an empty column", csv(e=[""] * N), said=("Not used, it has no value: e.",)),
    Wart("a constant column", csv(c=["7"] * N), said=("Not used, it has one value: c.",)),
    Wart("names of people", csv(p=[f"P{i} {j}" for i in range(N) for j in "a"]), said=("Not used, it has another text in every row: p.",)),
    # Numbers
    Wart("N/A", csv(x=put(NUMBERS, "N/A", "N/A")), said=("Missing values: 2 of x.",), features=["x", "x missing", *FEATURES[1:4], "w missing", "bias"]),
    Wart("a dash among numbers", csv(x=put(NUMBERS, "-")), error="line 4, column x: '-' is not a number: .*--na"),
    Wart("a word among numbers", csv(x=put(NUMBERS, "many")), error="line 4, column x: 'many' is not a number: correct it, .*--na for .*--categories x"),
    Wart("a word that is named", csv(x=put(NUMBERS, "many")), "--na many", said=("1 of x",), features=["x", "x missing", *FEATURES[1:4], "w missing", "bias"]),
    Wart("a mark that no value is", csv(), "--na many", error="--na 'many': no value of mine.csv is that"),
    Wart("codes of the target", csv(), "--categories y", error="--categories y: that is the target"),
    Wart("codes of a category", csv(k=put([*"123"] * 10, "X")), "--categories k", features=of("k=1", "k=2", "k=3", "k=X")),
    Wart("few numbers among texts", csv(w=put(TEXTS, "1", "2")), features=["x", "w=1", "w=2", "w=A", "w=B", "w=C", "bias"]),
    Wart("blanks between thousands", csv(x=put(NUMBERS, "1 200")), error="line 4, column x: '1 200' is not a number: .*--thousands"),
    Wart("blanks between thousands, named", csv(x=put(NUMBERS, "1 200", "1\u202f300")), "--thousands ' '", said=("' ' between thousands",)),
    Wart("commas between thousands", csv(x=put(NUMBERS, '"1,200"')), error="line 4, column x: '1,200' is not a number: .*--thousands"),
    Wart("commas between thousands, named", csv(x=put(NUMBERS, '"1,200"')), "--thousands ,"),
    Wart("commas that may be either", csv(x=[f'"{i + 1},200"' for i in range(N)]), error="line 2, column x: '1,200' is not a number: correct it, or give --decimal, --thousands"),
    Wart("decimal commas", csv(x=[f'"{t}"' for t in COMMAS]), error="line 2, column x: '0,5' is not a number: .*--decimal"),
    Wart("decimal commas, named", csv(x=[f'"{t}"' for t in COMMAS]), "--decimal ,", said=("decimal mark ','",)),
    Wart("one decimal comma", csv(x=put(NUMBERS, '"3750,0"')), error="line 4, column x: '3750,0' .*is not a number: .*--decimal"),
    Wart("points and commas", csv(x=[f'"{t}"' for t in COMMAS], v=NUMBERS), "--decimal ,", error="line 2, column v: '0.5' is not a number"),
    Wart("German numbers", csv(x=put(COMMAS, "1.200,5"), mark=";"), "--decimal , --thousands .", said=("'.' between thousands",)),
    Wart("a decimal mark that is none", csv(), "--decimal x", error="decimal = 'x' must be . or ,"),
    Wart("infinity", csv(x=put(NUMBERS, "inf")), error="line 4, column x: 'inf' is not a number"),
    Wart("too large", csv(x=put(NUMBERS, "1e300")), error="line 4, column x: '1e300' is not a number"),
    Wart("underscores", csv(x=put(NUMBERS, "1_000")), error="line 4, column x: '1_000' is not a number"),
    Wart("percent", csv(x=put(NUMBERS, "5%")), error="line 4, column x: '5%' is not a number"),
    Wart("powers of ten", csv(x=put(NUMBERS, "1e-5", "2E3", "+4"))),
    # Labels
    Wart("labels 1 and 2", csv(y=[*"12"] * (N // 2)), classes=["1", "2"], said=("2 classes (1, 2), so this is classification; if not, state classes or a range in a schema",)),
    Wart("labels in words YAML knows", csv(y=["true", "no"] * (N // 2)), classes=["no", "true"]),
    Wart("a label that is missing", csv(y=put(LABELS, "")), error="line 4, column y: a missing label \\(''\\), as in 1 of 30 rows: leave such rows out by --drop-unlabelled"),
    Wart("a label that is missing, left out", csv(y=put(LABELS, "", "NA")), "--drop-unlabelled", said=("Rows without a label, left out: 2 of 30.",), rows=N - 2),
    Wart("labels in two spellings", csv(y=put(LABELS, "Yes")), classes=["Yes", "no", "yes"]),
    Wart("one number twice", csv(y=put([*"12"] * (N // 2), "1.0")), classes=["1", "1.0", "2"], said=("3 classes (1, 1.0, 2)",)),
    Wart("two labels that are one double", csv(y=[CODE, TWIN] * (N // 2)), classes=[CODE, TWIN]),
    Wart("categories that are one double", csv(k=([CODE] * 2 + [TWIN]) * (N // 3)), "--categories k", features=of(f"k={CODE}", f"k={TWIN}")),
    Wart("one label", csv(y=["no"] * N), error="column y: every row has 'no', so there is nothing to learn"),
    Wart("30 whole numbers", csv(y=[*map(str, range(5, N + 5))]), classes=None, said=("Predicting y: a number from 5.0 to 34.0, so this is regression; if not, state classes or a range in a schema",)),
    Wart("a word among numbers to predict", csv(y=put(NUMBERS, "many")), error="line 4, column y: 'many' is not a number"),
    # Texts that other programs would carry out
    Wart("interpolation", csv(w=put(TEXTS, "${x}", "${oc.env:HOME}")), features=["x", "w=${oc.env:HOME}", "w=${x}", "w=A", "w=B", "w=C", "bias"]),
    Wart("three question marks", csv(w=put(TEXTS, "???")), features=["x", "w=???", "w=A", "w=B", "w=C", "bias"]),
    Wart("labels of interpolation", csv(y=["${x}", "???"] * (N // 2)), classes=["${x}", "???"]),
    Wart("a header of interpolation", csv(header="${oc.env:HOME},w,y"), features=["${oc.env:HOME}", *FEATURES[1:]]),
    Wart("names of Hydra", csv(header="_target_,w,y"), features=["_target_", *FEATURES[1:]]),
    Wart("YAML in texts", csv(w=put(TEXTS, "{a: b}", "[c", "# d", "- e", "!!f", "&g", "'h'", "i: j")), features=["x", "w=!!f", "w=# d", "w=&g", "w='h'", "w=- e", "w=A", "w=B", "w=C", "w=[c", "w=i: j", "w={a: b}", "bias"]),
    Wart("markup", csv(w=put(TEXTS, "[red]", "<b>"), header="[bold]x,w,y"), features=["[bold]x", "w=<b>", "w=A", "w=B", "w=C", "w=[red]", "bias"], said=("[bold]x",)),
    Wart("control characters", csv(w=put(TEXTS, "\x1b[31m")), features=["x", "w=\x1b[31m", "w=A", "w=B", "w=C", "bias"]),
    Wart("characters that look the same", csv(w=put(TEXTS, "é", "e\u0301")), features=["x", "w=A", "w=B", "w=C", "w=e\u0301", "w=é", "bias"]),
    # Sizes
    Wart("three rows", "\n".join(csv().split("\n")[:4]), error="has 2 rows to train on"),
    Wart("101 texts", csv() + "".join(f"{i}.5,t{i},no\n" for i in range(101)), said=("more than 100 different texts: w",), features=["x", "bias"], rows=N + 101),
]  # fmt: skip


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Any, Dataset | None]]:
    """What `dplangevin schema`, or with its schema `compare`, prints, and the rows that it would learn from."""
    monkeypatch.chdir(tmp_path)

    def made(content: str | bytes, *words: str) -> tuple[Any, Dataset | None]:
        Path("mine.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
        found: list[Dataset] = []

        def run(self: comparison.Comparison, *_: Any) -> Any:
            found.append(self.data())
            raise KeyboardInterrupt

        monkeypatch.setattr(comparison.Comparison, "run", run)
        asked = ["schema", "mine.csv", "--target", "y", "--ranges-from-data", *words]
        written = CliRunner().invoke(app, asked)
        if written.exit_code:
            return written, None
        Path("schema.yaml").write_text(written.stdout, encoding="utf-8")
        done = CliRunner().invoke(app, ["compare", "mine.csv", "--schema", "schema.yaml"])
        done.output_bytes = written.stderr_bytes + done.output_bytes
        return done, found[0] if found else None

    return made


@pytest.mark.parametrize("wart", WARTS, ids=lambda wart: wart.name.replace(" ", "-"))
def test_every_wart_has_the_right_result_or_one_line(
    wart: Wart, read: Callable[..., tuple[Any, Dataset | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "LEAST", 10)
    done, data = read(wart.content, *shlex.split(wart.words))
    output = " ".join(done.output.split())
    assert not done.exception or isinstance(done.exception, SystemExit), done.exception
    if wart.error:
        assert done.exit_code == 2, output
        assert re.search(wart.error, output), output
        assert done.output.count("dplangevin: ") == 1
        return
    assert done.exit_code == 130, output  # stopped before the fits
    assert data is not None
    assert data.meta["features"] == wart.features
    assert data.x_train.shape[1] + data.x_test.shape[1] == wart.rows
    assert data.meta.get("labels") == wart.classes
    for text in (f"{wart.rows + ('left out' in str(wart.said)) * 2} rows", *wart.said):
        assert text in output


def edits(content: bytes) -> st.SearchStrategy[bytes]:
    """The bytes of a table with some of them replaced, inserted, deleted or repeated."""
    byte = st.one_of(st.sampled_from(b"\",;\n\r\t .-'\\#$?\x00\xff\xe9\xc3"), st.integers(0, 255))
    place = st.integers(0, len(content) - 1)
    edit = st.tuples(
        st.sampled_from(["replace", "insert", "delete", "repeat"]), place, st.integers(1, 8), byte
    )

    def edited(changes: list[tuple[str, int, int, int]]) -> bytes:
        found = bytearray(content)
        for how, at, length, value in changes:
            end = at + length
            if how == "replace":
                found[at : at + 1] = bytes([value])
            elif how == "insert":
                found[at:at] = bytes([value])
            elif how == "delete":
                del found[at:end]
            else:
                found[at:at] = found[at:end]
        return bytes(found)

    return st.lists(edit, min_size=1, max_size=4).map(edited)


BASES = [
    csv(),
    csv(x=[f'"{t}"' for t in NUMBERS], w=put(TEXTS, "é", '"A, ""B"""')),
    csv(mark=";", w=put(TEXTS, "", "NA"), end="\r\n", k=[str(i // 2) for i in range(N)]),
]


def check_bytes(content: bytes, read: Callable[..., tuple[Any, Dataset | None]]) -> bool:
    """Whether a table is learned from: then with the rows and columns that pandas finds, or a line says why not."""
    done, data = read(content)
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    if data is None:
        assert done.exit_code == 2, done.output
        assert done.output.count("dplangevin: ") == 1
        assert re.search(r"mine\.csv|column|encoding", done.output), done.output
        return False
    output = done.output
    (rows,) = re.findall(r"Read 'mine.csv': ([\d,]+) rows", output)
    (mark,) = re.findall(r"separator ('.'|'\\t'|\"'\")", output)
    assert int(rows.replace(",", "")) == data.x_train.shape[1] + data.x_test.shape[1]
    text = content.decode("utf-8-sig")  # every byte is a character
    assert ("\ufffd" in "".join(data.meta["features"])) <= ("\ufffd" in text)
    other = pd.read_csv(
        io.StringIO(text, newline=""), sep=ast.literal_eval(mark), dtype=str, keep_default_na=False, header=None,
        skipinitialspace=True, index_col=False,
    )  # fmt: skip
    blank = other.apply(lambda column: column.fillna("").str.strip().eq("")).all(axis=1)  # a row has a target
    assert len(other) - blank.sum() - 1 == int(rows.replace(",", "")), output
    (learned,) = re.findall(r"Columns to learn from: (\d+),", output)
    dropped = [part.count(",") + 1 for part in re.findall(r"Not used, .*?: (.*)\.", output)]
    assert other.shape[1] == int(learned) + sum(dropped) + 1, output
    return True


@pytest.mark.parametrize(
    ("bases", "examples"),
    [
        ([BASES[1]], 30),
        pytest.param([BASES[0], BASES[2]], 60, marks=pytest.mark.slow),
        pytest.param(BASES, 2000, marks=[pytest.mark.slow, pytest.mark.trial("a table of one's own")]),
    ],
)
def test_bytes_that_are_changed_never_change_rows_or_columns_in_silence(
    bases: list[str],
    examples: int,
    read: Callable[..., tuple[Any, Dataset | None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(comparison, "LEAST", 2)
    seen: list[bool] = []

    @settings(max_examples=examples, derandomize=True)
    @given(st.sampled_from(bases).flatmap(lambda text: edits(text.encode())))
    @example(BASES[2].replace("\r\n2;", "\r\v\n2;").encode())
    def every(content: bytes) -> None:
        seen.append(check_bytes(content, read))

    every()
    assert 0.05 < np.mean(seen) < 0.95  # both happen
