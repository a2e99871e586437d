"""Several gateways as one, through Redis: answers, flights, quotas, rates, keys, sessions."""
