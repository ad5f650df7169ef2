"""Volumes, windows as columns, samples of images, alignments of labels."""

import torch
import torch.nn.functional as F

import values
from table import Call, compare, of, without

SUMS = {"ulps": 64, "gradient_ulps": 256, "floor": "largest", "zero_signs": False}
SOME = ("contiguous", "transposed", "stride-0")

for x, w, told, options in (
    ((2, 3, 4, 5, 4), (4, 3, 2, 3, 2), {}, {}),
    (
        (2, 2, 5, 6, 5),
        (3, 2, 3, 2, 3),
        {"stride": (2, 1, 2), "pad": (1, 0, 2)},
        {"stride": (2, 1, 2), "padding": (1, 0, 2)},
    ),
    ((1, 4, 5, 5, 5), (4, 2, 2, 2, 2), {"groups": 2, "dilation": (2, 1, 2)}, {"groups": 2, "dilation": (2, 1, 2)}),
):
    for shapes in ((x, w, (w[0],)), (x, w)):
        compare(
            "convolution3d",
            Call(
                of(*shapes),
                lambda x, w, b=None, options=options: F.conv3d(x, w, b, **options),
                told,
                label=" ".join(map(str, shapes)),
                layouts=SOME,
                **SUMS,
            ),
        )
for x, w, told, options in (
    ((2, 3, 2, 3, 3), (3, 2, 2, 3, 2), {}, {}),
    (
        (1, 2, 3, 2, 3),
        (2, 3, 3, 2, 2),
        {"stride": (2, 1, 2), "pad": (1, 0, 0), "adj": (1, 0, 1)},
        {"stride": (2, 1, 2), "padding": (1, 0, 0), "output_padding": (1, 0, 1)},
    ),
):
    compare(
        "deconvolution3d",
        Call(
            of(x, w, (w[1],)),
            lambda x, w, b, options=options: F.conv_transpose3d(x, w, b, **options),
            told,
            label=str(x),
            layouts=SOME,
            **SUMS,
        ),
    )
for kernel, stride, pad, ceil in (((2, 2, 2), (2, 2, 2), (0, 0, 0), False), ((3, 2, 2), (2, 1, 2), (1, 1, 0), True)):
    told = {"kernel": kernel, "stride": stride, "pad": pad, "ceil_mode": ceil}
    compare(
        "max_pool3d",
        Call(
            lambda source: [source.distinct(2, 2, 5, 4, 5)],
            lambda x, k=kernel, s=stride, p=pad, c=ceil: F.max_pool3d(x, k, s, p, ceil_mode=c),
            told,
            layouts=values.LAYOUTS[:4],
        ),
    )
    for include in (True, False):
        compare(
            "avg_pool3d",
            Call(
                of((2, 2, 5, 4, 5)),
                lambda x, k=kernel, s=stride, p=pad, c=ceil, i=include: F.avg_pool3d(x, k, s, p, c, i),
                {**told, "count_include_pad": include},
                **SUMS,
            ),
        )
for size in ((1, 1, 1), (2, 3, 2), (5, 4, 7)):
    compare(
        "adaptive_avg_pool3d",
        Call(of((2, 2, 5, 4, 6)), lambda x, size=size: F.adaptive_avg_pool3d(x, size), {"output_size": size}, **SUMS),
    )
    compare(
        "adaptive_max_pool3d",
        Call(
            lambda source: [source.distinct(2, 2, 5, 4, 6)],
            lambda x, size=size: F.adaptive_max_pool3d(x, size),
            {"output_size": size},
            layouts=values.LAYOUTS[:4],
            **SUMS,
        ),
    )
for p in (1.0, 2.0, 3.0):
    # PyTorch does not take magnitudes.
    compare(
        "lp_pool3d",
        Call(
            of((2, 2, 5, 4, 6), low=0.2, high=3),
            lambda x, p=p: F.lp_pool3d(x, p, (2, 2, 3), (1, 2, 2)),
            {"p": p, "kernel": (2, 2, 3), "stride": (1, 2, 2)},
            **SUMS,
        ),
    )
for kernel, stride, pad, dilation in (((3, 2), (1, 2), (1, 0), (1, 1)), ((2, 2), (2, 1), (0, 2), (1, 2))):
    how = {"kernel": kernel, "stride": stride, "pad": pad, "dilation": dilation}
    compare(
        "im2col",
        Call(
            of((2, 3, 6, 5)),
            lambda x, k=kernel, s=stride, p=pad, d=dilation: F.unfold(x, k, d, p, s),
            how,
            layouts=SOME,
            **SUMS,
        ),
    )

    def columns(source, k=kernel, s=stride, p=pad, d=dilation):
        count = F.unfold(torch.zeros(1, 1, 6, 5), k, d, p, s).shape[2]
        return [source.values(2, 3 * k[0] * k[1], count)]

    compare(
        "col2im",
        Call(
            columns,
            lambda x, k=kernel, s=stride, p=pad, d=dilation: F.fold(x, (6, 5), k, d, p, s),
            {**how, "output_size": (6, 5)},
            layouts=SOME,
            **SUMS,
        ),
    )
for padding in ("zeros", "border", "reflection"):
    for corners in (False, True):
        for nearest in (False, True):
            compare(
                "grid_sample",
                Call(
                    lambda source: [source.values(2, 3, 4, 5), source.values(2, 3, 4, 2, low=-1.4, high=1.4)],
                    lambda x, g, m="nearest" if nearest else "bilinear", p=padding, c=corners: F.grid_sample(
                        x, g, m, p, c
                    ),
                    {
                        "nearest": nearest,
                        "border": padding == "border",
                        "reflection": padding == "reflection",
                        "align_corners": corners,
                    },
                    types=values.PRECISE,
                    layouts=SOME,
                    **{**SUMS, "ulps": 512, "gradient_ulps": 4096, "second": False},
                ),
            )


def alignment(source):
    return [source.values(7, 2, 5), torch.tensor([[1, 2, 2], [3, 1, 4]])]


def recurrent(source):
    return [source.values(4, 3, 2), source.values(4 * 3 * (2 + 3 + 2)), source.values(1, 3, 3), source.values(1, 3, 3)]


def lstm_parts(weights):
    rows, size, units = 12, 2, 3
    parts = torch.split(weights, [rows * size, rows * units, rows, rows])
    return [parts[0].reshape(rows, size), parts[1].reshape(rows, units), parts[2], parts[3]]


def torch_lstm(x, weights, h, c):
    return torch.lstm(x, (h, c), lstm_parts(weights), True, 1, 0.0, False, False, False)


compare(
    "rnn",
    Call(
        recurrent,
        torch_lstm,
        attributes={"state_size": 3},
        types=values.PRECISE,
        layouts=("contiguous",),
        outputs=(0, 1, 2),
        **{**SUMS, "second": False},
    ),
)


def recurrent_lengths(source):
    x, weights, *states = recurrent(source)
    return [x, weights, torch.tensor([4, 2, 1]), *states]


def torch_packed_lstm(x, weights, lengths, h, c):
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths)
    y, h, c = torch.lstm(packed.data, packed.batch_sizes, (h, c), lstm_parts(weights), True, 1, 0.0, False, False)
    y = torch.nn.utils.rnn.PackedSequence(y, packed.batch_sizes)
    return torch.nn.utils.rnn.pad_packed_sequence(y)[0], h, c


compare(
    "rnn_lengths",
    Call(
        recurrent_lengths,
        torch_packed_lstm,
        attributes={"state_size": 3},
        types=values.PRECISE,
        layouts=("contiguous",),
        gradients=(0, 1, 3, 4),
        outputs=(0, 1, 2),
        **{**SUMS, "second": False},
    ),
)


compare(
    "ctc_loss",
    Call(
        alignment,
        lambda x, y: F.ctc_loss(F.log_softmax(x, 2), y, torch.tensor([7, 7]), torch.tensor([3, 3]), reduction="none"),
        gradients=(0,),
        types=values.PRECISE,
        layouts=("contiguous",),
        **{**SUMS, "second": False},
    ),
)
without(
    "torchvision has it, which is not installed beside PyTorch here; tests/operator holds it to plain loops",
    "box_nms",
    "roi_align",
    "deformable_convolution",
)
