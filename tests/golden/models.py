"""Model files that are kept for ever, one of each version of the format, with rows and what they predict.

``model_v2.ahofm`` is a file and ``model_v2.json`` its rows: a list per column, with null for a missing value, and the
predictor (rows,). The file of version 1 was fitted and written by the Python code of that version.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import safetensors

FOLDER = Path(__file__).parent


def keep(model, X):
    """Write the model's file and its rows; None where there is one of that version already, which stays as it is."""
    draft = FOLDER / "draft.ahofm"
    model.save(draft)
    with safetensors.safe_open(draft, "numpy") as file:
        path = FOLDER / f"model_v{file.metadata()['version']}.ahofm"
    if path.exists():
        draft.unlink()
        return None
    draft.replace(path)
    columns = {name: [None if pd.isna(value) else value for value in X[name]] for name in X}
    rows = {"columns": columns, "eta": model.eta(X)[:, 0].tolist()}
    path.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n")
    return path


def kept():
    """Paths of all files, by version."""
    return sorted(FOLDER.glob("model_v*.ahofm"), key=lambda path: int(path.stem.removeprefix("model_v")))


def rows_of(path):
    """The table of a kept file, and the predictor at its rows."""
    rows = json.loads(path.with_suffix(".json").read_text())
    return pd.DataFrame(rows["columns"]), np.array(rows["eta"])
