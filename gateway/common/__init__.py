"""What several rooms of the gateway use: pages and drawings, SQLite files."""
