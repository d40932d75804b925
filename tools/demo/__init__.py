"""The demo: a real model uploaded, catalogued, stored and delivered to a Pod that answers with it."""
