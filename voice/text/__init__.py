"""From the LLM's deltas to what is spoken, clause by clause. Pure."""
