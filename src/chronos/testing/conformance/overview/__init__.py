"""Cases about the reads of lists and pages: jobs by status and run, runs, counts, days."""
