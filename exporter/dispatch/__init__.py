"""Between torch's dispatcher and the recorder: composite operators, functionalization, autocast, gradients."""
