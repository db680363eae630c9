"""Where onnx.reference differs from the specification, or raises an error: the cases, and what it does.

What is wrong without an error has a script in `findings/`.
"""

from __future__ import annotations

#: For each runtime, patterns of ids, and the reason.
DIFFERENCES: dict[str, list[tuple[tuple[str, ...], str]]] = {
    "onnx.reference": [
        (("Erf-*-double-*", "Gelu-*-double-*"), "it computes the error function in float32"),
        (("Gelu-*-float16-*",), "it rounds every step of the function's body, and loses small results by cancellation"),
        (("HardSwish-*-double-*",), "its 1/6 is a float32; the specification says 1/6"),
        (("Softsign-*-scalar", "ReduceLogSumExp-*-scalar-*"), "it raises an error for a scalar"),
        (
            ("Softmax-1-*", "Softmax-11-*", "LogSoftmax-1-*", "LogSoftmax-11-*", "Hardmax-1-*", "Hardmax-11-*"),
            "it computes along the axis, as of opset 13, where older versions take all axes from it on as one",
        ),
        (("Det-*-float16-*", "Det-*-bfloat16-*"), "it has no determinant of 16 bits"),
        (("Mean-*-scalar_2x3",), "it adds in place to the first tensor, which cannot be broadcast then"),
        (("ReduceLogSum-*int*-2x2-*", "ReduceLogSumExp-*int*-2x1-*"), "it raises an error for integers"),
        (("ReduceSumSquare-*-int32-*", "ReduceSumSquare-*-uint32-*"), "it returns 64 bits for integers of 32"),
        (
            (
                "CenterCropPad-*-string+*",
                "Pad-*-string-2x3-pads=0,1,2,1",
                "Pad-*-string-0x3-*",
                "Pad-*-string+*-2x3-pads=0,1,2,1",
            ),
            "it pads with the string 0, and not with the empty one",
        ),
        (("Flatten-*-0x3",), "it cannot flatten a tensor whose first size is 0"),
        (("Pad-*-2x3-pads=0,-1,1,-1",), "it cannot pad by a negative number"),
        (("Unsqueeze-11-*-2-axes=2,0",), "it inserts axes one by one, in the order that is given, which may have none"),
        (("Gather-*-string+*-3_2",), "it returns a string that is none of an array of strings"),
        (("GatherElements-*-2x3_2x1.*-axis=-1",), "it takes a negative axis for one that is not the last"),
        (("OneHot-*-bool+*", "OneHot-*-string+*"), "it raises an error for values that are not numbers"),
        (
            ("OneHot-*-float+*--1,-3,0_3_2", "OneHot-*-float+*-5,-7,1_3_2", "OneHot-*-0_3_2"),
            "it takes no depth of rank 1",
        ),
        (("Scatter-9-*",), "it has no Scatter"),
        (
            ("Unique-*-sorted=0*", "Unique-*-string-*-axis=*"),
            "its order of unsorted elements is wrong, and it sorts no rows of strings",
        ),
    ]
}
