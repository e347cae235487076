"""Client quotas: how much users, clients and addresses may have (KIP-546)."""
