"""Programs that need preparation before they can be recorded: exported programs and higher-order operators."""
