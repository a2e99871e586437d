"""Who may call: keys, clients, the guard of requests, rejections."""
