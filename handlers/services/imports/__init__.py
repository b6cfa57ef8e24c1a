"""Imports: uploading files, and importing their rows, a set of rows in each database transaction."""
