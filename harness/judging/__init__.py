"""The judgement of a cell: torch's reference, the outcome, the likely cause of a failure, and the failure bundle."""
