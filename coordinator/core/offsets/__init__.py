"""Committed offsets, plain and transactional: kept by `store`, which only applied records change."""
