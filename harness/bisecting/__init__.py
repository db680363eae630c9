"""Which release of a distribution has a defect: releases of an index, environments with them, and the search."""
