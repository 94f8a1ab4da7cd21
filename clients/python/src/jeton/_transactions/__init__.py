"""e-Transactions: procedures that the servers execute over several databases exactly once."""
