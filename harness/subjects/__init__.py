"""What is put to the test, and what runs it: exporters, runtimes, the models between them."""
