"""The control-plane runtime: watches, stores, queues, controllers, leases, apply, admission."""
