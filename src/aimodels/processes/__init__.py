"""Entry points that wire rooms into processes."""
