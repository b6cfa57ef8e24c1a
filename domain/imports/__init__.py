"""Imports: jobs that read a file of rows, the rows, and what is wrong with them."""
