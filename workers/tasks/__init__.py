"""What Celery workers do, one file a kind of work."""
