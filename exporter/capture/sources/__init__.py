"""Other ways into a recording than plain calls: exported programs and torch's higher-order operators."""
