"""What a paper says, tested. Claims are entries of `conf/claim/`, each of which names one of the rules here as its
`test`."""
