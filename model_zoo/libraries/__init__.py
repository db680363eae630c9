"""Models of libraries, a row each: what programs look like that were written for other purposes.

None of these libraries is needed by the project, and the default tier runs none of them. Where one is installed, the
full tier runs its models, with random weights, once with static and once with dynamic axes:

    pip install kornia torch-geometric
    parity run model_zoo/libraries --tier full --opsets 18 --exporters parity,torch_dynamo,torch_script
"""
