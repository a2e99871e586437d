"""What a large run needs: unit costs that were measured, and a simulation made of them."""
