"""Reading runs: merged, asked, compared, summed up; and where they took place."""
