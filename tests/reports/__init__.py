"""Tests of the reports: from records to pages, and the pages in a browser."""
