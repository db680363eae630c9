"""Several operators that become one."""
