"""What the caller of an export asked for: arguments, names, dynamic axes and shapes, marked inputs."""
