"""Measurements: throughput, what guarantees cost, buffers."""
