"""Where machines come from: the provider contract and the providers."""
