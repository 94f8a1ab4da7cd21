"""e-Transactions: the servers execute a procedure over several databases exactly once."""
