"""Generated programs: drawing them, putting them to exporters, runtimes and transformations, and what is found."""
