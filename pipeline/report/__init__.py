"""One self-contained HTML file: no script, no font, no address that is fetched. Names in it are data, never markup."""
