"""Settings, logging, metrics, retry and clocks that every process shares."""
