"""A recorded market as tools: prices and news by day, sessions of agents in it, their memory."""
