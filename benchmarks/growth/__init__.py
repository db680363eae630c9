"""How cost grows: time and memory by the number of nodes, inputs, bytes of weights, records and workers, as a chart."""
