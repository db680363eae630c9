"""What a program changes outside of itself while it is recorded, and how it is put back."""
