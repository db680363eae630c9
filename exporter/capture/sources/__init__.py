"""Sources of recordings other than plain calls: exported programs and torch's higher-order operators."""
