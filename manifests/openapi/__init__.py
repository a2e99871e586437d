"""OpenAPI documents as manifests: reading within bounds, schemas, operations."""
