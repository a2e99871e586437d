"""MCP servers as upstreams."""
