"""Models of libraries, a row each: what programs look like that were written for other purposes.

None of these libraries is needed by the project, and the default tier runs none of them. Where one is installed, the
full tier runs its models, with random weights, once with static and once with dynamic axes:

    pip install kornia torch-geometric
    parity run model_zoo/libraries --tier full --opsets 18 --exporters parity,torch_dynamo,torch_script

Not all of them can be exported: einx (`relative` and `dynamic_positions` of x_transformers) solves equations over sizes
with numbers, and the parallel scan of mambapy and the filter of torchaudio write to views in loops over a dynamic axis.
TimesNet and the contrastive loss decide by values: their models are right for those of the example.
"""
