"""How tables of rewrites are applied to a model, and what rewrites ask and need for that."""
