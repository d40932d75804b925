"""What the module's Jobs share: the shape of their Pods, how one stands, how its program begins and ends."""
