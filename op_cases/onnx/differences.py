"""Where onnx.reference, or what onnx's own node tests expect, differs from the specification: the cases, and how.

What is wrong without an error has a script in `findings/`.
"""

from __future__ import annotations

#: For each, patterns of ids, and the reason. Tests of onnx that are named here are not in the pack.
DIFFERENCES: dict[str, list[tuple[tuple[str, ...], str]]] = {
    "onnx.reference": [
        # It computes something else.
        (("Attention-*-softcap=2.0-qk_matmul_output_mode=0-*",), "its product of queries and keys is capped in mode 0"),
        (("BatchNormalization-9-*",), "it mixes the statistics of the batch into those that are given"),
        (
            (
                "DeformConv-*-double-*",
                "Erf-*-double-*",
                "Gelu-*-double-*",
                "GridSample-*-double+*",
                "Resize-*-double+*",
                "Resize-*-double-*-antialias=1",
            ),
            "it computes in float32, wholly or in part",
        ),
        (("GRU-*", "LSTM-*", "RNN-*"), "it ignores lengths, clip, and most activations"),
        (("Gelu-*-float16-*", "ConvTranspose-*-float16-*"), "it rounds to float16 after every step"),
        (("GlobalMaxPool-*-1x2x5",), "it reduces one axis too many of an image of one dimension"),
        (("GridSample-*-mode=cubic-padding_mode=border-*",), "it clamps the place, and not the elements around it"),
        (("HardSwish-*-double-*",), "its 1/6 is a float32; the specification says 1/6"),
        (("LRN-*",), "it sums the squares of too few channels, and knows images of two dimensions only"),
        (("LpNormalization-*-p=1",), "it takes no magnitudes where p is 1"),
        (("LpPool-*-ceil_mode=1",), "it adds elements of the last windows that are outside of the tensor"),
        (("MaxPool-*-auto_pad=SAME_*",), "its result is too small with strides"),
        (
            ("MaxPool-*-1x2x4x5-kernel_shape=2,3-outputs=0,1", "MaxPool-*-1x2x3x4-*-storage_order=1-outputs=0,1"),
            "its indices begin again with each channel",
        ),
        (("NegativeLogLikelihoodLoss-*-ignore_index=-1",), "its mean counts elements that are ignored"),
        (
            ("Resize-*-coordinate_transformation_mode=align_corners", "Resize-*-coordinate_transformation_mode=.*"),
            "with align_corners it takes the size before it was rounded down",
        ),
        (("RoiAlign-10-*",), "version 10 has no half pixels"),
        (("SequenceInsert-*_0_3",), "it inserts at the front what is to be the last"),
        (
            ("Softmax-1-*", "Softmax-11-*", "LogSoftmax-1-*", "LogSoftmax-11-*", "Hardmax-1-*", "Hardmax-11-*"),
            "it computes along the axis, as of opset 13, where older versions take all axes from it on as one",
        ),
        (
            ("Unique-*-sorted=0*", "Unique-*-string-*-axis=*"),
            "its order of unsorted elements is wrong, and it sorts no rows of strings",
        ),
        (("ml.TreeEnsemble-5-*-post_transform=[1-4]-*",), "it applies no post_transform"),
        (("ml.LinearRegressor-*",), "without intercepts it returns NaN; its result has the type of the input"),
        # Its result has another type, shape or form.
        (("AffineGrid-*",), "it returns float32 for every type"),
        (("Gather-*-string+*-3_2",), "it returns a string that is in no array"),
        (("LayerNormalization-*",), "its mean has the type of the input; it computes in float32 only"),
        (
            ("Loop-*-int64-10_True_0-*", "Loop-*-int64-none_True_0-*", "Loop-*-int64-2_True_1-*"),
            "what it stacks of scalars has an axis too many",
        ),
        (("Optional-*", "If-*-optional.*"), "it returns a list"),
        (("ReduceSumSquare-*-int32-*", "ReduceSumSquare-*-uint32-*"), "it returns 64 bits for integers of 32"),
        (
            ("CenterCropPad-*-string+*", "Pad-*-string-2x3-pads=0,1,2,1", "Pad-*-string+*", "Trilu-*-string-*"),
            "it pads with the string 0, and not with the empty one",
        ),
        (
            (
                "ml.FeatureVectorizer-*",
                "ml.Normalizer-*",
                "ml.LinearClassifier-*",
                "ml.SVM*",
                "ml.Scaler-*",
                "ml.TreeEnsembleRegressor-*",
            ),
            "its result has the type of the input, where the specification says float",
        ),
        (("ml.DictVectorizer-*.float+*",), "its result is float64"),
        (("ml.DictVectorizer-*-map.-*",), "of an empty map, its result is int64"),
        (("ml.DictVectorizer-*.string+*-map.7=*",), "what is not there is the string 0, and not the empty one"),
        # It raises an error.
        (
            (
                "BatchNormalization-7-*",
                "Scatter-9-*",
                "GlobalLpPool-*",
                "MaxRoiPool-*",
                "Multinomial-*",
                "Resize-10-*",
                "Scan-8-*",
                "Upsample-*",
                "DequantizeLinear-10-*",
                "DequantizeLinear-13-*",
                "ml.LabelEncoder-1-*",
            ),
            "it has no such version",
        ),
        (("ml.CastMap-*", "ml.CategoryMapper-*", "ml.ZipMap-*"), "it has no such operator"),
        (("ml.TreeEnsembleClassifier-3-double+T2=int64-*.109e81",), "it takes no tensors of doubles"),
        (("ml.TreeEnsemble-5-*-0x2-*",), "it cannot have no rows"),
        (
            ("Resize-*-bool*", "Resize-*-string*", "Resize-*-complex*", "GridSample-*-string+*", "Col2Im-*-string-*"),
            "it computes with elements that are only to be moved",
        ),
        (
            ("Cast-*-bfloat16+T1=string-*", "CastLike-*-bfloat16+T1=string-*", "CastLike-*-float8e8m0+*-round_mode=*"),
            "it cannot cast so",
        ),
        (
            ("Cast-*-float8e8m0+*-5.*",),
            "of infinities, 0 and numbers that are too small, it makes what the table does not",
        ),
        (("Constant-*-sparse_value=*",), "it returns no sparse value"),
        (("ConvTranspose-*-output_shape=6,6", "ConvTranspose-*-group=2-*"), "it cannot have these attributes"),
        (("Det-*-float16-*", "Det-*-bfloat16-*"), "it has no determinant of 16 bits"),
        (("Dropout-*-training_mode=True*",), "it needs a ratio in training"),
        (("Dropout-7-*", "Dropout-10-*"), "it returns the mask alone"),
        (
            (
                "Flatten-*-0x3",
                "GlobalAveragePool-*-0x2x3x3",
                "Col2Im-*-0x4x9_*",
                "ConvTranspose-*-0x2x3x3_*",
                "GridSample-*-0x2x3x4_*",
                "NegativeLogLikelihoodLoss-*-0x3_*",
                "SoftmaxCrossEntropyLoss-*-0x3_*",
                "GroupNormalization-*-0x4x3_*",
            ),
            "it cannot have a first size of 0",
        ),
        (("GatherElements-*-2x3_2x1.*-axis=-1",), "it takes a negative axis for one that is not the last"),
        (("GridSample-16-*-mode=bi*",), "it does not know the names of version 16"),
        (
            ("Loop-*-3_none_2-*", "Loop-*-0_True_2-*", "Loop-*-3_False_2-*", "Loop-*-none_False_2-*"),
            "it cannot have no iterations, or no condition",
        ),
        (("MatMulInteger-*_2_4", "QLinearMatMul-*-2x3_0.5,1.0_2_*"), "it takes no zero points of rows"),
        (("MaxPool-*int8-*",), "it cannot pad integers"),
        (("Mean-*-scalar_2x3",), "it adds in place to the first tensor, which cannot be broadcast then"),
        (("MeanVarianceNormalization-*",), "the types of the function in ONNX itself do not fit"),
        (("NonMaxSuppression-*-1x6x4.602da8_1x1x6.4cce0f",), "it needs the number of boxes"),
        (("OneHot-*-bool+*", "OneHot-*-string+*"), "it raises an error for values that are not numbers"),
        (("OneHot-*_3,_*",), "it takes no depth of rank 1"),
        (("Pad-*-2x3-pads=0,-1,1,-1",), "it cannot pad by a negative number"),
        (
            ("QLinearMatMul-21-float8*", "QLinearMatMul-21-*+TS=bfloat16*"),
            "it has integers only, and rounds to bfloat16 inside",
        ),
        (("ReduceLogSum-*int*-2x2.*", "ReduceLogSumExp-*int*-2x1.*"), "it raises an error for integers"),
        (("Scan-*-scan_*",), "it has no axes and directions"),
        (("Softsign-*-scalar", "ReduceLogSumExp-*-scalar-*"), "it raises an error for a scalar"),
        (("Unsqueeze-11-*-2-axes=2,0",), "it inserts axes one by one, in the order that is given, which may have none"),
    ],
    "onnx.backend.test": [
        (
            ("onnx.training_dropout", "onnx.training_dropout_mask", "onnx.training_dropout_default*"),
            "what is dropped is what numpy's generator draws, which the specification does not name",
        ),
        (
            ("onnx.resize_downsample_scales_*_align_corners",),
            "the size of the result is not rounded down where the specification has length_resized",
        ),
        (
            ("onnx.dynamicquantizelinear", "onnx.dynamicquantizelinear_expanded"),
            "an element lies halfway between two integers, to which of which float32 brings it is left open",
        ),
        (
            ("onnx.image_decoder_decode_jpeg*", "onnx.image_decoder_decode_webp*"),
            "decoders of formats with losses differ in their last bits",
        ),
    ],
}
