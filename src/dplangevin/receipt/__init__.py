"""A receipt for a training that ran: what was drawn, clipped and noised, what it costs, where a claim differs."""
