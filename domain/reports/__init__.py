"""Reports: the time that they are about, and how it is covered by totals that were made before."""
