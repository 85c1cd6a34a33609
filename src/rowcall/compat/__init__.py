"""Names of other queues, for apps that move over task by task."""
