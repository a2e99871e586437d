"""Stand-alone programs that measurements are taken beside."""
