"""Changes to torch and other libraries while a program is recorded, undone afterwards."""
