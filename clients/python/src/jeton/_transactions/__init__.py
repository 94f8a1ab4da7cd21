"""e-Transactions: procedures of the servers, carried out over several databases exactly once."""
