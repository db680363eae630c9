"""A search for models that are wrong at a size that their assumptions allow."""
