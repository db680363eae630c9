"""Known failures: expectations, and the smallest edit that makes them true."""
