"""Recurrent networks: weights of theirs in our order."""

import torch

from onnx_call import NoCounterpart, onnx_operator, shaped

# Which of ONNX's gates stands where in ours.
GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
PLAIN = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


def check_plain(call, directions):
    """Raises for what no operator here knows."""
    kind = call.node.op_type
    if call.given(4) or (kind == "LSTM" and call.given(7)):
        raise NoCounterpart("lengths, peepholes")
    if call.attribute("clip") is not None or call.attribute("input_forget", 0):
        raise NoCounterpart("clip, input_forget")
    given = [name.decode() if isinstance(name, bytes) else name for name in call.attribute("activations") or []]
    relu = kind == "RNN" and given and set(given) == {"Relu"}
    if given and not relu and given != PLAIN[kind] * directions:
        raise NoCounterpart("activations")
    if kind == "GRU" and not call.attribute("linear_before_reset", 0):
        raise NoCounterpart("a reset before the product")
    return "rnn_relu" if relu else {"LSTM": "lstm", "GRU": "gru", "RNN": "rnn_tanh"}[kind]


@onnx_operator("LSTM", "GRU", "RNN")
def recurrence(call):
    kind, x = call.node.op_type, call.inputs[0]
    direction = call.only("direction", "forward", "bidirectional", "reverse")
    directions, units = (2 if direction == "bidirectional" else 1), call.attribute("hidden_size")
    mode = check_plain(call, directions)
    batch_first = bool(call.attribute("layout", 0))
    if batch_first:
        x = call.run("transpose", [x], shape=(1, 0, 2))[0]
    if direction == "reverse":
        x = call.run("flip", [x], axis=0)[0]
    gates, dtype = len(GATES[kind]), x.tensor().dtype
    weights, recurrent = call.inputs[1].tensor(), call.inputs[2].tensor()
    biases = call.inputs[3].tensor() if call.given(3) else torch.zeros(directions, 2 * gates * units, dtype=dtype)

    def ours(rows):
        return torch.cat([rows[g * units : (g + 1) * units] for g in GATES[kind]])

    parts = [part.reshape(-1) for d in range(directions) for part in (ours(weights[d]), ours(recurrent[d]))]
    for d in range(directions):
        parts += [ours(biases[d][: gates * units]), ours(biases[d][gates * units :])]
    batch = x.shape[1]
    states = [
        call.inputs[i].tensor() if call.given(i) else torch.zeros(directions, batch, units, dtype=dtype)
        for i in ((5, 6) if kind == "LSTM" else (5,))
    ]
    if batch_first:
        states = [s.transpose(0, 1) if s.shape[0] == batch and s.shape[0] != directions else s for s in states]
    arrays = [x, call.array(torch.cat(parts)), *(call.array(state) for state in states)]
    made = call.run("rnn", arrays, mode=mode, state_size=units, bidirectional=directions == 2)
    y, ends = made[0], made[1 : 1 + len(states)]
    if direction == "reverse":
        y = call.run("flip", [y], axis=0)[0]
    y = call.run("transpose", [shaped(call, y, (*y.shape[:2], directions, units))], shape=(0, 2, 1, 3))[0]
    if batch_first:
        y = call.run("transpose", [y], shape=(2, 0, 1, 3))[0]
        ends = [call.run("transpose", [state], shape=(1, 0, 2))[0] for state in ends]
    return [y, *ends]
