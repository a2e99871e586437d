"""Access control: keys, clients, the guard of requests, rejections."""
