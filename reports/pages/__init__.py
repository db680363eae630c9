"""What each page of a report shows, as data."""
