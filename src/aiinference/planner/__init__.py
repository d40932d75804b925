"""From an order, its class, the inventory and the recipes to a launch plan, or to why there is none."""
