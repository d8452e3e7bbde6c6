"""Step environments and return transitions and scores: on the host, in worker processes, or on the device."""
