"""All families of operators: importing this module registers what most programs need of them.

The lowerings of the other families take a tenth of the time of a process's first export to import, so they are imported
when an operator is met that none of these lowers, when a user registers a lowering, or when all lowerings are listed.
So are the rules for symbolic sizes, complex and nested tensors, and TorchScript when a program has any of them.
"""

# ruff: noqa: F401  (what is imported registers its rules)
import onnx_parity.exporter.kinds.nested.jagged_rows
import onnx_parity.exporter.lowering.custom.autograd
import onnx_parity.exporter.lowering.custom.onnx_ops
import onnx_parity.exporter.operators.activation.lowering
import onnx_parity.exporter.operators.arithmetic.elementwise_binary
import onnx_parity.exporter.operators.arithmetic.lowering
import onnx_parity.exporter.operators.arithmetic.recorded
import onnx_parity.exporter.operators.attention.lowering
import onnx_parity.exporter.operators.attention.recorded
import onnx_parity.exporter.operators.comparison.lowering
import onnx_parity.exporter.operators.comparison.recorded
import onnx_parity.exporter.operators.convolution.lowering
import onnx_parity.exporter.operators.creation.lowering
import onnx_parity.exporter.operators.creation.recorded
import onnx_parity.exporter.operators.cumulative.lowering
import onnx_parity.exporter.operators.distances.recorded
import onnx_parity.exporter.operators.elementwise.lowering
import onnx_parity.exporter.operators.embedding.lowering
import onnx_parity.exporter.operators.embedding.recorded
import onnx_parity.exporter.operators.fourier.recorded
import onnx_parity.exporter.operators.indexing.lowering
import onnx_parity.exporter.operators.indexing.recorded
import onnx_parity.exporter.operators.indexing.scatter
import onnx_parity.exporter.operators.joining.lowering
import onnx_parity.exporter.operators.joining.recorded
import onnx_parity.exporter.operators.linear_algebra.complex_as_real
import onnx_parity.exporter.operators.linear_algebra.einsum
import onnx_parity.exporter.operators.linear_algebra.lowering
import onnx_parity.exporter.operators.linear_algebra.recorded
import onnx_parity.exporter.operators.loss.recorded
import onnx_parity.exporter.operators.normalization.lowering
import onnx_parity.exporter.operators.normalization.recorded
import onnx_parity.exporter.operators.padding.lowering
import onnx_parity.exporter.operators.pooling.lowering
import onnx_parity.exporter.operators.pooling.recorded
import onnx_parity.exporter.operators.random.recorded
import onnx_parity.exporter.operators.recorded.result_sizes
import onnx_parity.exporter.operators.recorded.upsampling
import onnx_parity.exporter.operators.recorded.view_sizes
import onnx_parity.exporter.operators.recurrent.recorded
import onnx_parity.exporter.operators.reduction.lowering
import onnx_parity.exporter.operators.resize.recorded
import onnx_parity.exporter.operators.shape.lowering
import onnx_parity.exporter.operators.shape.rearrange
import onnx_parity.exporter.operators.shape.recorded
import onnx_parity.exporter.operators.sorting.recorded
import onnx_parity.exporter.operators.special.recorded
import onnx_parity.exporter.operators.statistics.recorded
from onnx_parity.exporter.dispatch.composites import register_kernels
from onnx_parity.exporter.registry.rules import Aspect, when_needed

__all__: list[str] = []


@when_needed(Aspect.LOWERING)
def _import_rare_lowerings() -> None:
    """Register all other lowerings. An operator's overloads are all lowered here, or all above."""
    import onnx_parity.exporter.operators.arithmetic.divisors
    import onnx_parity.exporter.operators.attention.rotary
    import onnx_parity.exporter.operators.control_flow.lowering
    import onnx_parity.exporter.operators.detection.lowering
    import onnx_parity.exporter.operators.distances.lowering
    import onnx_parity.exporter.operators.elementwise.floating_point
    import onnx_parity.exporter.operators.fourier.lowering
    import onnx_parity.exporter.operators.linear_algebra.complex_matrices
    import onnx_parity.exporter.operators.linear_algebra.complex_schur
    import onnx_parity.exporter.operators.linear_algebra.grouped_matmul
    import onnx_parity.exporter.operators.linear_algebra.ldl
    import onnx_parity.exporter.operators.linear_algebra.lu
    import onnx_parity.exporter.operators.linear_algebra.matrix_exponential
    import onnx_parity.exporter.operators.linear_algebra.qr
    import onnx_parity.exporter.operators.linear_algebra.schur
    import onnx_parity.exporter.operators.linear_algebra.spectral
    import onnx_parity.exporter.operators.linear_algebra.triangular
    import onnx_parity.exporter.operators.lists.lowering
    import onnx_parity.exporter.operators.loss.lowering
    import onnx_parity.exporter.operators.pooling.adaptive_pooling
    import onnx_parity.exporter.operators.quantization.lowering
    import onnx_parity.exporter.operators.quantization.packed_four_bits
    import onnx_parity.exporter.operators.quantization.quantized_decomposed
    import onnx_parity.exporter.operators.random.lowering
    import onnx_parity.exporter.operators.recurrent.lowering
    import onnx_parity.exporter.operators.recurrent.packed_sequences
    import onnx_parity.exporter.operators.resize.grid_sampling
    import onnx_parity.exporter.operators.resize.lowering
    import onnx_parity.exporter.operators.sorting.lowering
    import onnx_parity.exporter.operators.sorting.order_statistics
    import onnx_parity.exporter.operators.special.airy
    import onnx_parity.exporter.operators.special.bessel
    import onnx_parity.exporter.operators.special.incomplete_gamma
    import onnx_parity.exporter.operators.special.lowering
    import onnx_parity.exporter.operators.special.normal_distribution
    import onnx_parity.exporter.operators.special.polynomials
    import onnx_parity.exporter.operators.special.zeta
    import onnx_parity.exporter.operators.statistics.lowering


@when_needed(Aspect.DECOMPOSITION)
def _import_decompositions() -> None:
    import onnx_parity.exporter.operators.attention.decompositions
    import onnx_parity.exporter.operators.fourier.decompositions
    import onnx_parity.exporter.operators.gradients.decompositions
    import onnx_parity.exporter.operators.loss.decompositions
    import onnx_parity.exporter.operators.normalization.decompositions
    import onnx_parity.exporter.operators.pooling.decompositions
    import onnx_parity.exporter.operators.quantization.decompositions
    import onnx_parity.exporter.operators.recurrent.decompositions
    import onnx_parity.exporter.operators.reduction.decompositions
    import onnx_parity.exporter.operators.shape.decompositions
    import onnx_parity.exporter.operators.sorting.decompositions
    import onnx_parity.exporter.operators.statistics.decompositions


@when_needed(Aspect.COMPLEX)
def _import_complex_rules() -> None:
    import onnx_parity.exporter.operators.complex.arithmetic
    import onnx_parity.exporter.operators.complex.conversion
    import onnx_parity.exporter.operators.complex.decompositions
    import onnx_parity.exporter.operators.complex.eigenvalues
    import onnx_parity.exporter.operators.complex.fourier
    import onnx_parity.exporter.operators.complex.functions
    import onnx_parity.exporter.operators.complex.products
    import onnx_parity.exporter.operators.complex.rearranging


@when_needed(Aspect.NUMBERS)
def _import_sizes() -> None:
    """Register what programs with dynamic sizes need."""
    import onnx_parity.exporter.operators.attention.sizes
    import onnx_parity.exporter.operators.creation.sizes
    import onnx_parity.exporter.operators.creation.tensors_of_numbers
    import onnx_parity.exporter.operators.embedding.sizes
    import onnx_parity.exporter.operators.fourier.sizes
    import onnx_parity.exporter.operators.indexing.sizes
    import onnx_parity.exporter.operators.joining.sizes
    import onnx_parity.exporter.operators.pooling.sizes
    import onnx_parity.exporter.operators.recurrent.sizes
    import onnx_parity.exporter.operators.resize.sizes
    import onnx_parity.exporter.operators.shape.sizes
    import onnx_parity.exporter.operators.sorting.sizes


@when_needed(Aspect.NESTED)
def _import_nested_rules() -> None:
    import onnx_parity.exporter.operators.nested.functions


@when_needed(Aspect.SCRIPT)
def _import_steps_of_scripts() -> None:
    import onnx_parity.exporter.operators.activation.script
    import onnx_parity.exporter.operators.arithmetic.script
    import onnx_parity.exporter.operators.attention.script
    import onnx_parity.exporter.operators.comparison.script
    import onnx_parity.exporter.operators.creation.script
    import onnx_parity.exporter.operators.indexing.script
    import onnx_parity.exporter.operators.joining.script
    import onnx_parity.exporter.operators.linear_algebra.script
    import onnx_parity.exporter.operators.padding.script
    import onnx_parity.exporter.operators.random.script
    import onnx_parity.exporter.operators.shape.script
    import onnx_parity.exporter.operators.sorting.script


register_kernels()
