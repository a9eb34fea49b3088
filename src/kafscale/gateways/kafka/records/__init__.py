"""Record sets on their way in and out: checks, old formats, what a fetch is answered with."""
