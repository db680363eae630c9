"""From declarations to programs: finding declarations, drawing cases, and creating weights and seeds."""
