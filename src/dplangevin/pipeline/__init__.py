"""What runs an experiment: configuration, plan, sweep, cache of finished tasks, data on demand, executors."""
