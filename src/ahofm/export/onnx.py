"""A model as an ONNX graph, and as a converter of skl2onnx. All numbers are doubles."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from ahofm.estimators import AHOFMClassifier, AHOFMRegressor
from ahofm.explain.arguments import Fitted, model_of
from ahofm.export.description import Description, describe
from ahofm.export.graph import OPSETS, GraphWriter
from ahofm.export.packed import base

_DOUBLE, _INT, _TEXT = 11, 7, 8  # of onnx.TensorProto


class _Nodes:
    """Nodes and constants of a graph of its own."""

    def __init__(self) -> None:
        from onnx import helper, numpy_helper  # noqa: PLC0415 - who exports to ONNX needs it

        self.helper, self.numpy_helper = helper, numpy_helper
        self.nodes: list[Any] = []
        self.constants: dict[tuple[str, tuple[int, ...], bytes], Any] = {}

    def node(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        name = f"ahofm_{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, values: Any) -> str:
        array = np.ascontiguousarray(values)
        key = (str(array.dtype), array.shape, array.tobytes() if array.dtype != object else repr(array).encode())
        if key not in self.constants:
            name = f"ahofm_constant_{len(self.constants)}"
            self.constants[key] = self.numpy_helper.from_array(array, name)
        return str(self.constants[key].name)


def to_onnx(
    fitted: Fitted,
    *,
    contributions: str | None = None,
    offset: bool = False,
    missing: str = "",
    opset: int = OPSETS[""],
) -> Any:
    """Write a model as an ONNX graph in double precision.

    Inputs have the names of the columns and shape (n, 1): doubles, NaN where missing, or text. Values are interpolated
    as ``predict`` does; levels that training did not have are neutral.

    Parameters
    ----------
    fitted : estimator or model
        Fitted.
    contributions : "columns" or "terms", optional
        One more output, of shape (n, linear predictors, columns) or (n, linear predictors, terms): Shapley values, or
        every term. ``metadata_props`` of the model name columns, terms and bases.
    offset : bool, default False
        Whether there is one more input "offset" of shape (n, linear predictors), which is added to linear predictors.
    missing : str, default ""
        Text that means missing, in columns of text.
    opset : int, default 17
        Version of the standard operators, 17 or later.

    Returns
    -------
    onnx.ModelProto
        With the output "prediction" of shape (n, 1); of a classifier "label" (n,) and "probabilities" (n, classes); of
        an ordinal model "prediction" and "probabilities" (n, levels).

    Raises
    ------
    ValueError
        For an unknown kind of contributions, more than 500 terms, or a column that has the level ``missing``.

    Examples
    --------
    >>> from ahofm.export import to_onnx
    >>> graph = to_onnx(model, contributions="columns").graph
    >>> [own.name for own in graph.input], [own.name for own in graph.output]
    (['wind', 'rain', 'sun'], ['prediction', 'contributions'])
    """
    try:
        keeper = _Nodes()
    except ImportError as error:
        raise ImportError("to_onnx needs the package onnx: pip install 'ahofm[export]'") from error
    if contributions not in (None, "columns", "terms"):
        raise ValueError(f"contributions must be None, 'columns' or 'terms', got {contributions!r}")
    if opset < OPSETS[""]:
        raise ValueError(f"opset must be {OPSETS['']} or later, got {opset}")
    description = describe(model_of(fitted), pure=contributions is not None)
    if offset and "offset" in description.names:
        raise ValueError("offset=True needs an input 'offset', and a column has that name: rename it")
    helper = keeper.helper
    writer = GraphWriter(description, keeper, description.names, missing)
    found = _outputs(writer, "offset" if offset else None)
    kinds = {"prediction": (_DOUBLE, [None, 1]), "label": (_label_type(description), [None])}
    kinds["probabilities"] = (_DOUBLE, [None, len(description.probabilities())])
    facts: dict[str, Any] = {"columns": list(description.names), "linear_predictors": list(description.labels)}
    if contributions is not None:
        facts["bases"] = [base(description, k) for k in range(len(description.labels))]
        width = len(description.columns)
        if contributions == "terms":
            sets, found["contributions"] = writer.terms()
            facts["terms"] = [[description.names[j] for j in subset] for subset in sets]
            width = len(sets)
        else:
            found["contributions"] = writer.shapley_values()
        kinds["contributions"] = (_DOUBLE, [None, len(description.labels), width])
    nodes = [*keeper.nodes, *(helper.make_node("Identity", [own], [name]) for name, own in found.items())]
    inputs = [
        helper.make_tensor_value_info(column.name, _TEXT if column.text else _DOUBLE, [None, 1])
        for column in description.columns
    ]
    if offset:
        inputs.append(helper.make_tensor_value_info("offset", _DOUBLE, [None, len(description.labels)]))
    outputs = [helper.make_tensor_value_info(name, *kinds[name]) for name in found]
    graph = helper.make_graph(nodes, "ahofm", inputs, outputs, list(keeper.constants.values()))
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", OPSETS["ai.onnx.ml"])]
    model = helper.make_model(graph, opset_imports=opsets, producer_name="ahofm", producer_version=version("ahofm"))
    model.ir_version = min(model.ir_version, 10)  # of runtimes that are a few years old
    helper.set_model_props(model, {name: json.dumps(fact) for name, fact in facts.items()})
    return model


def _label_type(description: Description) -> int:
    return _INT if all(type(label) is int for label in description.classes or ()) else _TEXT


def _outputs(writer: GraphWriter, offset: str | None) -> dict[str, str]:
    """Names of results by output."""
    description = writer.description
    eta = writer.etas(offset)
    mean = writer.mean(eta)
    if description.mean.levels:
        return {"prediction": mean, "probabilities": writer.ordinal_probabilities(eta)}
    if description.classes is None:
        return {"prediction": mean}
    integers = _label_type(description) == _INT
    labels = np.array(description.classes if integers else [str(own) for own in description.classes])
    names = writer.constant(labels if integers else labels.astype(object))
    if description.mean.name == "softmax":
        chosen = writer.node("ArgMax", [mean], axis=1, keepdims=0)
        return {"label": writer.node("Gather", [names, chosen]), "probabilities": mean}
    likely = writer.node("Cast", [writer.node("Greater", [mean, writer.constant(np.full((1, 1), 0.5))])], to=_INT)
    chosen = writer.node("Squeeze", [likely, writer.constant(np.array([1], dtype=np.int64))])
    rest = writer.node("Sub", [writer.constant(np.ones((1, 1))), mean])
    both = writer.node("Concat", [rest, mean], axis=1)
    return {"label": writer.node("Gather", [names, chosen]), "probabilities": both}


class _Container:
    """Nodes and constants that go to skl2onnx."""

    def __init__(self, scope: Any, container: Any) -> None:
        self.scope, self.container = scope, container

    def node(self, kind: str, inputs: Sequence[str], domain: str = "", **attributes: Any) -> str:
        name = self.scope.get_unique_variable_name(f"ahofm_{kind}")
        version_of = (
            2 if domain else {"Softmax": 13, "ReduceSum": 13, "Squeeze": 13, "Unsqueeze": 13, "Slice": 13}.get(kind)
        )
        known = {} if version_of is None else {"op_version": version_of}
        own = self.scope.get_unique_operator_name(f"ahofm_{kind}")
        self.container.add_node(kind, list(inputs), [name], op_domain=domain, name=own, **known, **attributes)
        return str(name)

    def constant(self, values: Any) -> str:
        array = np.asarray(values)
        name = self.scope.get_unique_variable_name("ahofm_constant")
        kind = {"f": _DOUBLE, "i": _INT}.get(array.dtype.kind, _TEXT)
        cells = [own.encode() for own in array.ravel().tolist()] if kind == _TEXT else array.ravel().tolist()
        self.container.add_initializer(name, kind, list(array.shape), cells)
        return str(name)


def register_skl2onnx() -> None:
    """Teach skl2onnx the estimators, so that ``skl2onnx.to_onnx(Pipeline(...))`` converts them.

    The estimator reads one matrix of numbers, or one input for each column, as the pipeline hands it over; predictions
    are doubles.

    Examples
    --------
    >>> from ahofm.export import register_skl2onnx
    >>> register_skl2onnx()
    """
    try:
        from skl2onnx import update_registered_converter  # noqa: PLC0415 - who converts pipelines needs it
    except ImportError as error:
        raise ImportError("register_skl2onnx needs the package skl2onnx: pip install skl2onnx") from error
    for estimator in (AHOFMRegressor, AHOFMClassifier):
        update_registered_converter(estimator, estimator.__name__, _shapes, _convert, overwrite=True)


def _shapes(operator: Any) -> None:
    from skl2onnx.common.data_types import DoubleTensorType, Int64TensorType, StringTensorType  # noqa: PLC0415

    model = operator.raw_operator.model_
    rows = operator.inputs[0].type.shape[0] if operator.inputs[0].type.shape else None
    if model.classes is None:
        operator.outputs[0].type = DoubleTensorType([rows, 1])
        return
    integers = _label_type(describe(model)) == _INT
    operator.outputs[0].type = (Int64TensorType if integers else StringTensorType)([rows])
    operator.outputs[1].type = DoubleTensorType([rows, len(model.classes)])


def _convert(scope: Any, operator: Any, container: Any) -> None:
    description, keeper = describe(operator.raw_operator.model_), _Container(scope, container)
    writer = GraphWriter(description, keeper, _cells(description, operator.inputs, keeper), "")
    found = list(_outputs(writer, None).values())[: len(operator.outputs)]  # a regressor of skl2onnx has one
    for variable, own in zip(operator.outputs, found, strict=True):
        container.add_node("Identity", [own], [variable.full_name], name=scope.get_unique_operator_name("ahofm_result"))


def _cells(description: Description, inputs: Sequence[Any], keeper: _Container) -> list[str]:
    """One tensor for each column, of the inputs one after another."""
    found: list[str] = []
    for variable in inputs:
        width = variable.type.shape[1] if len(variable.type.shape) > 1 else 1
        if width is None:
            raise ValueError("the number of columns that the pipeline hands to the estimator is not known to skl2onnx")
        for at in range(width):
            span = [keeper.constant(np.array([end], dtype=np.int64)) for end in (at, at + 1, 1)]
            own = variable.full_name if width == 1 else keeper.node("Slice", [variable.full_name, *span])
            column = description.columns[len(found)] if len(found) < len(description.columns) else None
            text = column is not None and column.text
            found.append(own if text else keeper.node("Cast", [own], to=_DOUBLE))
    if len(found) != len(description.columns):
        raise ValueError(f"the pipeline hands over {len(found)} columns, the model has {len(description.columns)}")
    return found
