"""What changed between recorded answers: two snapshots, or a series of them."""
