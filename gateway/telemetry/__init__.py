"""What the gateway tells of itself: metrics, spans, logs, health."""
