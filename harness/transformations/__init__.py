"""What users do to a model between export and run: optimisers, converters, smaller dtypes, and what they must keep."""
