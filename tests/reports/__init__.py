"""Tests of the reports: the rules by which records become pages, and the pages in a browser."""
