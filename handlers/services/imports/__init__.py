"""Imports: uploading files, and working them off in sets."""
