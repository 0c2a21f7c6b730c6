"""From results to figures and tables. `read` reads; the others are pure functions of the frames that it gives."""
