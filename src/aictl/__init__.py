"""The command line above both products."""
