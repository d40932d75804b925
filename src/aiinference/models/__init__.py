"""Which model an order gets: what the catalogue knows of it, and what the class's policy makes of that."""
