"""The objects that an order runs as: built whole from what is known, without asking anybody."""
