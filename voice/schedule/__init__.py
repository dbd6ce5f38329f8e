"""Who may use a model next: claims, and the queue in front of the one owner of a model."""
