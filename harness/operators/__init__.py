"""What is known of one operator, collected from the exporter's rules, the declarations and a run."""
