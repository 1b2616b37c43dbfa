"""The edge of the service towards the network."""
