"""Networks of the years after ResNet: the times of their exports, and the sizes of their graphs."""
