"""Which values of a float32 model float16 and bfloat16 cannot hold, and the model that computes the others in half."""
