"""The judgement of a cell: torch's reference, the outcome, who is to blame for a failure, and the failure bundle."""
