"""What is measured. Each module runs in a process of its own, ours in our environment and the peers in theirs."""
