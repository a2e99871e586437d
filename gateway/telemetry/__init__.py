"""What the gateway reports about itself: metrics, spans, logs, health."""
