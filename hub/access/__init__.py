"""Who may come in and do what: people, their browsers, tokens, and the record of what they did."""
