"""An audit of a private learner by anybody (docs/audit.md): an object with `fit`, or a function of data and a seed."""
