"""HTTP APIs of any kind: requests by bindings, credentials, answers."""
