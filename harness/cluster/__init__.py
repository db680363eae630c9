"""Runs cells on a Ray cluster: what is given to which worker, the processes on the nodes, and their loss."""
