"""What is put into torch and torchvision while a program is recorded, and taken out again."""
