"""Which cells there are and which of them run: ids, pytest items, shards, what need not be run again."""
