"""One module a subcommand of `voice`: add_parser declares its options, run does the work."""
