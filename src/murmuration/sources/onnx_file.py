"""A model as an ONNX file: raw attributes in, prediction out, for any program that runs ONNX.

An input for each feature, by its name: numbers (64-bit floats) or labels (texts), a column of one
value a person. Numbers are moved into their range, as devices did. Outputs:

    score         intercept + sum of coefficient * value; a linear model's prediction
    probability   of the target's second label (logistic)
    label         the label that is told (logistic, svm)

A label that the campaign does not have counts as the last of its list.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from murmuration.collector.training.model import TrainedModel
from murmuration.errors import missing_extra
from murmuration.training.campaign import TrainingCampaign

OPSET, FILE_FORMAT = 17, 9


def written(campaign: TrainingCampaign, trained: TrainedModel) -> bytes:
    """Return the bytes of an ONNX file."""
    try:
        onnx = import_module("onnx")
        helper, numbers = import_module("onnx.helper"), import_module("onnx.numpy_helper")
    except ImportError:
        raise missing_extra("an ONNX file", "onnx") from None
    graph = _Graph(onnx, helper, numbers)
    score = graph.constant("intercept", np.array([[trained.intercept]]))
    values = {coefficient.name: coefficient.value for coefficient in trained.coefficients}
    for feature in campaign.features:
        question = feature.question
        if question.labels:
            given = graph.input(question.name, text=True)
            for label, column in zip(question.labels[:-1], feature.names, strict=True):
                wanted = graph.constant(f"{column} is", np.array([[label]], dtype=object))
                same = graph.node("Equal", given, wanted)
                score = graph.plus(score, graph.node("Cast", same, to=graph.double), values[column])
        else:
            ends = [
                graph.constant(f"{question.name} {n}", np.array(e, np.float64))
                for n, e in zip(("low", "high"), question.range, strict=True)
            ]
            moved = graph.node("Clip", graph.input(question.name), *ends)
            score = graph.plus(score, moved, values[question.name])
    graph.output("score", score)
    if campaign.target.labels:
        graph.told(score, campaign.target.labels)
    if campaign.model == "logistic":
        graph.output("probability", graph.node("Sigmoid", score))
    return graph.file(f"{trained.campaign}, {trained.digest}")


class _Graph:
    """The nodes of a file, as they are put together."""

    def __init__(self, onnx: Any, helper: Any, numbers: Any) -> None:
        self._helper, self._numbers, self._kinds = helper, numbers, onnx.TensorProto
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self.double = onnx.TensorProto.DOUBLE

    def constant(self, name: str, values: Any) -> str:
        """Add numbers or texts that are known."""
        self._constants.append(self._numbers.from_array(values, name))
        return name

    def input(self, name: str, text: bool = False) -> str:
        """Add a column that is given."""
        kind = self._kinds.STRING if text else self.double
        self._inputs.append(self._helper.make_tensor_value_info(name, kind, ["people", 1]))
        return name

    def node(self, kind: str, *given: str, **options: Any) -> str:
        """Add a step, and return the name of what it gives."""
        name = f"step {len(self._nodes)}"
        self._nodes.append(self._helper.make_node(kind, list(given), [name], **options))
        return name

    def plus(self, sum_so_far: str, column: str, weight: float) -> str:
        """Add a column times a weight."""
        factor = self.constant(f"weight {len(self._nodes)}", np.array([[weight]]))
        return self.node("Add", sum_so_far, self.node("Mul", column, factor))

    def told(self, score: str, labels: tuple[str, ...]) -> None:
        """Add the label that a score tells."""
        zero = self.constant("zero", np.array([[0.0]]))
        names = [
            self.constant(f"label {n}", np.array([[t]], dtype=object)) for n, t in enumerate(labels)
        ]
        above = self.node("Greater", score, zero)
        self.output("label", self.node("Where", above, names[1], names[0]), text=True)

    def output(self, name: str, what: str, text: bool = False) -> None:
        """Give a result its name."""
        self._nodes.append(self._helper.make_node("Identity", [what], [name]))
        kind = self._kinds.STRING if text else self.double
        self._outputs.append(self._helper.make_tensor_value_info(name, kind, ["people", 1]))

    def file(self, about: str) -> bytes:
        """Return the whole as bytes."""
        graph = self._helper.make_graph(
            self._nodes, "model", self._inputs, self._outputs, self._constants
        )
        made = self._helper.make_model(
            graph,
            producer_name="murmuration",
            doc_string=about,
            opset_imports=[self._helper.make_opsetid("", OPSET)],
            ir_version=FILE_FORMAT,
        )
        return bytes(made.SerializeToString())
