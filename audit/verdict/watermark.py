"""What a page says of data that are not all there."""

COMPLETE_IT = "Type the run's command again if it has ended: it runs what is missing. Then build the report again."
