"""The append-only ledger: all state of ours beside Pulumi's is its events, folded."""
