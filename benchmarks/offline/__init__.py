"""What can be learned from fixed data: the studies behind results/offline. `python -m benchmarks.offline`"""
