"""Upstream hosts: their breakers, fair queues, rates and quotas, and how adapters are opened."""
