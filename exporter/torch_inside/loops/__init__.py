"""What is asked of the frames and the code of programs whose loops are recorded."""
